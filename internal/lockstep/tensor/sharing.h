// SPDX-License-Identifier: Apache-2.0
// Two checks that the ranks of a job are training one model, each on its own samples. A program without the wrapper
// gets no error, only weights that differ between ranks. Modules that do not depend on each other record their facts
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Facts about this process since it joined its job.
struct SharingSigns {
  int world = 1;             ///< number of ranks
  bool wrapped = false;      ///< a DistributedDataParallel over several ranks has been created
  bool divided = false;      ///< a DataLoader has returned shuffled batches of one of several shards
  std::int64_t batches = 0;  ///< number of batches of such loaders
  std::int64_t stepped = 0;  ///< bytes of parameters that optimizers have changed, over all steps
  std::int64_t reduced = 0;  ///< bytes that were passed to collectives
};

/// Returns a warning if the ranks share their data but neither gradients nor weights; else "". It is a pure function.
[[nodiscard]] std::string separate_training(const SharingSigns& signs);

/// Records that the job has `world` ranks, and that this process is rank `rank`. Thread-safe: yes, like all note
/// functions below; each costs one atomic load once there is nothing left to warn about.
void note_world(int rank, int world) noexcept;
/// Records a DistributedDataParallel over several ranks.
void note_wrapper() noexcept;
/// Records that a loader has returned a batch of one of several shards.
void note_shard_batch(bool shuffled) noexcept;
/// Records that an optimizer has changed `parameter_bytes` bytes of parameters.
void note_step(std::int64_t parameter_bytes) noexcept;
/// Records that `bytes` bytes were passed to a collective.
void note_reduced(std::int64_t bytes) noexcept;
/// Returns false if further records would have no effect.
[[nodiscard]] bool watches_sharing() noexcept;

/// Warns once, on rank 0, about any problem that separate_training() finds. Call it at the end of an epoch and when a
/// checkpoint is saved.
void warn_of_separate_training() noexcept;

/// The first batch that a loop received. The loader records it, and the wrapper compares it across the ranks.
struct FirstBatch {
  std::uint64_t digest = 0;           ///< digest of the indices in order
  std::int64_t shards = 1;            ///< number of shards of the set
  std::vector<std::int64_t> indices;  ///< the first few indices
};

/// Records the batch that the loop has just received, in place of the previous one, until take_first_batch() is called.
/// After that, a call costs one atomic load. Thread-safe: yes.
void note_first_batch(const std::vector<std::int64_t>& indices, std::int64_t shards) noexcept;

/// Returns the last recorded batch, or none if there is none. Later batches are not recorded. Thread-safe: yes.
[[nodiscard]] std::optional<FirstBatch> take_first_batch();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
