// SPDX-License-Identifier: Apache-2.0
#include "train/loop/rescue.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/comm/objects.h"
#include "train/loop/save_points.h"
#include "train/ranks/same_outcome.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

bool lies_in(const fs::path& inner, const fs::path& outer) {
  const std::string relative = fs::weakly_canonical(inner).lexically_relative(fs::weakly_canonical(outer)).string();
  return !relative.empty() && !relative.starts_with("..");
}

/// Saves the run in `folder`. Returns: the checkpoint on rank 0, an empty path on the other ranks.
fs::path save_elsewhere(const Job& job, ReadyRun& run, const fs::path& folder) {
  TrainConfig::Checkpoint options = run.plan->config.checkpoint;
  options.async = false;
  RunSaver saver(job, options, folder / "checkpoints");
  SavePoints(job, *run.plan, *run.learner, saver).save(run.state, {.last = true});
  return saver.last_path();
}

}  // namespace

void require_rescue(const Job& job, const fs::path& folder, const fs::path& run_dir) {
  if (folder.empty()) return;
  do_on_main(job, [&] {
    if (lies_in(folder, run_dir)) {
      throw UsageError(
          fmt::format("the rescue folder {} is inside the run folder {}", folder.string(), run_dir.string()),
          "choose one on another disk: " + option_words("rescue", "DIR"));
    }
    std::error_code problem;
    fs::create_directories(folder / "checkpoints", problem);
    if (!problem) return;
    throw IoError(fmt::format("cannot create the rescue folder {}: {}", folder.string(), problem.message()),
                  "choose another " + option_words("rescue"));
  });
}

void rescue_run(const Job& job, ReadyRun& run, const DiskTrouble& trouble, const fs::path& folder) {
  if (folder.empty()) return;
  const std::string problem =
      broadcast_object(job.group(), trouble.any() ? trouble.first().message() : std::string(), 0);
  if (problem.empty()) return;
  if (job.is_main()) log::warn("{}; the run is saved in {}", problem, folder.string());
  const std::string path = broadcast_object(job.group(), save_elsewhere(job, run, folder).string(), 0);
  throw IoError(
      fmt::format("{}\n  saved         {} (step {})", problem, path, run.state.step),
      fmt::format("{} {} continues from there", option_words("run-dir", "NEW"), option_words("resume", path)));
}

}  // namespace lockstep::train
