// SPDX-License-Identifier: Apache-2.0
// log.jsonl: a line for every event that a curve or a table can be made of.
#pragma once

#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::train {

/// Writes log.jsonl, on rank 0. Throws: IoError from each event.
class LogSink final : public RunSink {
 public:
  /// `every_steps` is log_every_steps; 0: no line for steps. Lifetime: `folder` outlives it.
  LogSink(RunFolder& folder, std::int64_t every_steps) : folder_(folder), every_steps_(every_steps) {}

  void on_start(const RunStart& event) override;
  void on_step(const StepResult& event) override;
  void on_epoch(const EpochResult& event) override;
  void on_stage(const StageChange& event) override;
  void on_end(const RunEnd& event) override;

 private:
  RunFolder& folder_;
  std::int64_t every_steps_;
};

}  // namespace lockstep::train
