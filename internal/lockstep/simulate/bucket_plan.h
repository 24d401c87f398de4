// SPDX-License-Identifier: Apache-2.0
// Assigns gradients to buckets: a pure function, the same on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// The properties of a parameter that the plan needs.
struct PlanItem {
  std::int64_t bytes = 0;  ///< size of its gradient
  std::string kind = {};   ///< dtype and device: a bucket holds gradients of one kind
};

/// The sizes of buckets.
struct PlanLimits {
  std::int64_t first_bytes = 0;  ///< bytes of the first bucket of each kind
  std::int64_t bytes = 0;        ///< bytes of the later buckets; a bucket is closed once it holds this much
};

/// Plans buckets as indices into `items`. `order` contains each index once, in the order in which the gradients are
/// expected. The buckets are ordered by when their last gradients are expected, which is also the order of reduction.
[[nodiscard]] std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<PlanItem>& items,
                                                                 const std::vector<std::size_t>& order,
                                                                 const PlanLimits& limits);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
