// SPDX-License-Identifier: Apache-2.0
// Writes the run folder's digests.bin.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/view/digest_chain.h"

namespace lockstep::train {

/// Returns the bits of a loss, which are the same for every NaN.
[[nodiscard]] std::uint64_t loss_bits(double loss);

/// Returns the record of a step that has a digest.
[[nodiscard]] view::DigestRecord digest_record(const StepResult& step);

/// Writes a record for every step, on rank 0. Throws: IoError from each event.
class DigestSink final : public RunSink {
 public:
  /// `fold` is the fold from the checkpoint that the run resumes from. Lifetime: `folder` outlives it.
  DigestSink(RunFolder& folder, std::uint64_t fold) : folder_(folder), fold_(fold) {}

  void on_start(const RunStart& event) override;
  void on_step(const StepResult& event) override;

 private:
  RunFolder& folder_;
  std::uint64_t fold_;
  std::optional<view::DigestWriter> chain_;
};

}  // namespace lockstep::train
