// SPDX-License-Identifier: Apache-2.0
// What this process trains on in its first step: the loader says it, the wrapper compares it over the ranks. Here
// because neither knows the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

struct FirstBatch {
  std::uint64_t digest = 0;           ///< of the indices in order
  std::int64_t shards = 1;            ///< that the loader shares the set with, itself included
  std::vector<std::int64_t> indices;  ///< the first few
};

/// The batch that the loop has just got. Kept until the next one comes or take_first_batch() is called; afterwards it
/// costs one load. Thread-safe: yes.
void note_first_batch(const std::vector<std::int64_t>& indices, std::int64_t shards) noexcept;

/// The batch noted last; none where there was none. Nothing is noted any more. Thread-safe: yes.
[[nodiscard]] std::optional<FirstBatch> take_first_batch();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
