// SPDX-License-Identifier: Apache-2.0
#include "train/start.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/fetch_checkpoint.h"
#include "lockstep/comm/agreement.h"
#include "train/configuration.h"
#include "train/resume.h"
#include "train/same_outcome.h"
#include "train/share_state.h"
#include "train/shared_folder.h"

namespace lockstep::train {
namespace {

void compare(const Checkpoint& checkpoint, const TrainConfig& config, const std::string& settings) {
  const CheckpointMeta& meta = checkpoint.manifest().meta;
  if (config.replicas != 0 && config.replicas != meta.replicas) {
    throw UsageError(fmt::format("replicas is {} and the checkpoint's is {}", config.replicas, meta.replicas),
                     "leave it out: the result depends on it");
  }
  if (config.threads != 0 && config.threads != meta.threads) {
    log::warn("threads is {} and was {}: the result will not have the bits of the run before", config.threads,
              meta.threads);
  }
  require_same_settings(checkpoint, settings);
  warn_of_another_platform(checkpoint);
}

/// Where a group that the agent started again goes on: from what the one before has saved, if anything.
RunPlace place_of(const Job& job, TrainerOptions& options) {
  const bool again = job.rank_info().restart_count > 0 && !options.run_dir.empty();
  const bool saved = again && has_step_folders(FileSystem::system(), options.run_dir / "checkpoints");
  if (again && (saved || options.resume == "none")) options.resume = "auto";
  RunPlace place = choose_place(options);
  place.resume = place.resume || again;
  return place;
}

/// That of the run which goes on; 0: there is none, and it will be found.
void take_batch_size(TrainConfig& config, std::int64_t known) {
  if (known <= 0) return;
  config.batch_size = known;
  log::note("batch_size is auto: {}, as the run began with", known);
}

void decide(const Job& job, TrainConfig& config, const StateDict& shared) {
  config.replicas = entry<std::int64_t>(shared, "replicas");
  if (config.threads == 0) config.threads = entry<std::int64_t>(shared, "threads");
  const auto batch_size = entry<std::int64_t>(shared, "batch_size");
  if (config.batch_size.is_auto() && batch_size > 0) config.batch_size = batch_size;
  if (config.replicas == 0) config.replicas = job.world_size();
  if (config.threads == 0) config.threads = 1;
  if (config.replicas < job.world_size()) {
    throw UsageError(fmt::format("{} on {}: each needs one", counted(config.replicas, "replica", "replicas"),
                                 counted(job.world_size(), "process", "processes")),
                     fmt::format("start at most {}", counted(config.replicas, "process", "processes")));
  }
  job.set_replicas(static_cast<int>(config.replicas));
}

/// A URL becomes the path of what was fetched.
void fetch_start(TrainerOptions& options) {
  if (is_url(options.resume)) {
    log::note("fetching {}", options.resume);
    options.resume = fetch_checkpoint(options.resume).string();
  }
  if (is_url(options.init_from.string())) {
    log::note("fetching {}", options.init_from.string());
    options.init_from = fetch(options.init_from.string());
  }
}

/// The main rank's part: where it writes, what it goes on from, and what it tells the others.
StateDict find_out(const Job& job, TrainConfig& config, TrainerOptions& options, Start& start,
                   std::optional<Reporter>& reporter) {
  StateDict told;
  fetch_start(options);
  const RunPlace place = place_of(job, options);
  reporter.emplace(config, options, place);
  remove_checkpoint_leftovers(FileSystem::system(), reporter->folder().checkpoints());
  start.in_old_folder = place.resume;
  start.checkpoint = find_start(options, place);
  // A run that was killed before its first checkpoint begins again as it had begun, on whatever number of ranks.
  const BegunWith begun = place.resume && !start.checkpoint ? begun_with(place.path) : BegunWith{};
  if (config.replicas == 0) config.replicas = begun.replicas;
  if (config.threads == 0) config.threads = begun.threads;
  if (config.batch_size.is_auto()) {
    take_batch_size(config, start.checkpoint ? batch_size_of(*start.checkpoint) : begun.batch_size);
  }
  told["replicas"] = config.replicas;
  told["threads"] = config.threads;
  told["batch_size"] = config.batch_size.is_auto() ? 0 : config.batch_size.value();
  if (!start.checkpoint) return told;
  compare(*start.checkpoint, config, settings_text(options.recipe, config));
  told.merge(start.checkpoint->state("run"));
  told["saved_here"] = start.checkpoint->path().parent_path() == reporter->folder().checkpoints();
  told["replicas"] = start.checkpoint->manifest().meta.replicas;
  told["threads"] = start.checkpoint->manifest().meta.threads;
  return told;
}

}  // namespace

std::string counted(std::int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

Start agree_on_start(const Job& job, TrainConfig& config, TrainerOptions& options, std::optional<Reporter>& reporter) {
  Start start;
  StateDict shared;
  do_on_main(job, [&] { shared = find_out(job, config, options, start, reporter); });
  shared = share_state(shared, job.group());
  start.resumed = shared.count("step") != 0;
  if (start.resumed) start.run = run_state_of(shared);
  if (start.resumed) start.saved_here = entry<bool>(shared, "saved_here");
  decide(job, config, shared);
  start.settings = settings_text(options.recipe, config);
  if (config.checkpoint.sharded) require_shared_folder(job, reporter ? reporter->folder().checkpoints() : "");
  if (job.world_size() > 1) lockstep::require_same_settings(job.group(), common_settings(start.settings));
  return start;
}

}  // namespace lockstep::train
