// SPDX-License-Identifier: Apache-2.0
// Assigns gradients to buckets: a pure function, the same on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// A parameter, as far as the plan needs it.
struct PlanItem {
  std::int64_t bytes = 0;  ///< size of its gradient
  std::string kind = {};   ///< dtype and device: a bucket holds one kind
};

/// The sizes of buckets.
struct PlanLimits {
  std::int64_t first_bytes = 0;  ///< bytes of the first bucket of each kind
  std::int64_t bytes = 0;        ///< bytes of the other buckets; a bucket is closed once it holds this much
};

/// Plans buckets as indices into `items`. `order` has every index once, as the gradients are expected to arrive.
/// Buckets come in the order in which their last gradient is expected, which is the order in which they are reduced.
[[nodiscard]] std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<PlanItem>& items,
                                                                 const std::vector<std::size_t>& order,
                                                                 const PlanLimits& limits);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
