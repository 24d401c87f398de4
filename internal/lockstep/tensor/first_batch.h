// SPDX-License-Identifier: Apache-2.0
// The first batch on which this process trains: the loader notes it, and the wrapper compares it over the ranks. It is
// here because neither knows the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// What is known of the first batch that a loop got.
struct FirstBatch {
  std::uint64_t digest = 0;           ///< digest of the indices in order
  std::int64_t shards = 1;            ///< number of shards that the set is divided into, this loader's included
  std::vector<std::int64_t> indices;  ///< the first few
};

/// Notes the batch that the loop has just got, and keeps it until the next one comes or take_first_batch() is called.
/// After that a call costs one load. Thread-safe: yes.
void note_first_batch(const std::vector<std::int64_t>& indices, std::int64_t shards) noexcept;

/// Returns the batch that was noted last; none where there was none. Later batches are not noted. Thread-safe: yes.
[[nodiscard]] std::optional<FirstBatch> take_first_batch();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
