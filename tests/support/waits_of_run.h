// SPDX-License-Identifier: Apache-2.0
// A training run on the fake GPU, and the waits of its steps.
#pragma once

#include "support/host_waits.h"
// then the headers that need torch
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/trainer.h"
#include "support/temp_dir.h"

namespace lockstep::testing {

/// Thrown to end the run once the steps have been counted.
struct CountedEnough {};

/// Counts the waits of later steps; the first steps allocate memory and build tables.
class WaitCounter final : public RunSink {
 public:
  static constexpr std::int64_t kWarmup = 5;
  static constexpr std::int64_t kSteps = 8;

  explicit WaitCounter(std::vector<std::string>& found) : found_(found) {}
  void on_step(const StepResult& event) override {
    if (event.step == kWarmup) waits_.emplace();
    if (event.step < kWarmup + kSteps) return;
    found_ = HostWaits::found();
    waits_.reset();
    throw CountedEnough{};
  }

 private:
  std::vector<std::string>& found_;
  std::optional<HostWaits> waits_;
};

/// Returns the waits of kSteps steps of a task. `config` names its dataset.
/// Example: EXPECT_THAT(waits_of_run<SegmentationTask>(config), IsEmpty());
template <class TheTask, class Config>
std::vector<std::string> waits_of_run(Config config) {
  const test::TempDir folder;
  std::vector<std::string> found = {"the run ended before its steps were counted"};
  const char* program = "test";
  const Job job = init(1, &program, {.device = make_believe_gpu()});
  TheTask task(config);
  TrainerOptions options{.recipe = "test", .run_dir = folder / "run"};
  options.sinks = {std::make_shared<WaitCounter>(found)};
  try {
    (void)Trainer(job, task, config, options).fit();
  } catch (const CountedEnough&) {
    return found;
  }
  return found;
}

}  // namespace lockstep::testing
