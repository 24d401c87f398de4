// SPDX-License-Identifier: Apache-2.0
// How a batch is divided into replicas, and how a run that goes on may divide it into other ones. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::train {

/// Each of `replicas` takes `batch_size` samples of every batch.
struct Division {
  std::int64_t replicas = 1;
  std::int64_t batch_size = 1;

  [[nodiscard]] std::int64_t samples() const { return replicas * batch_size; }
};

/// Divides the same batches into `replicas` parts. A step then has the samples that it would have had, so that steps,
/// epochs, the place in the data and the learning rate keep their meaning; what belongs to a replica is that of the new
/// one (docs/guide/resume.md).
/// Throws: UsageError naming the numbers that divide a batch evenly.
[[nodiscard]] Division divide_again(const Division& before, std::int64_t replicas);

/// Says what changes: "replicas is 4 and was 1: ...".
[[nodiscard]] std::string change_text(const Division& before, const Division& now);

}  // namespace lockstep::train
