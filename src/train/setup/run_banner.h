// SPDX-License-Identifier: Apache-2.0
// Builds a run's banner, before its first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/comm/job.h"
#include "lockstep/train/train_config.h"
#include "lockstep/view/banner.h"
#include "train/plan/plan.h"
#include "train/resume/start.h"
#include "train/step/step_runner.h"

namespace lockstep::train {

/// The facts that the banner shows.
struct BannerFacts {
  const Job& job;
  const TrainConfig& config;
  std::string recipe;
  std::string model;
  StepRunner& steps;
  const Plan& plan;
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
  std::filesystem::path run_folder;
  bool found_batch = false;  ///< batch_size was auto
  bool averaged = false;     ///< evaluations use a moving average
  const Start& start;
};

/// Returns the banner. It is complete on rank 0, to which every rank sends its device. Collective: yes.
[[nodiscard]] view::BannerInfo run_banner(const BannerFacts& facts);

}  // namespace lockstep::train
