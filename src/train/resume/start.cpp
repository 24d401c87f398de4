// SPDX-License-Identifier: Apache-2.0
#include "train/resume/start.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/checkpoint/fetch_checkpoint.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/data/decode.h"
#include "lockstep/view/digest_chain.h"
#include "train/ranks/same_outcome.h"
#include "train/ranks/share_state.h"
#include "train/ranks/shared_folder.h"
#include "train/report/save_counter.h"
#include "train/resume/origin.h"
#include "train/resume/resume.h"
#include "train/resume/stage_base.h"
#include "train/settings/configuration.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

void compare(const Checkpoint& checkpoint, const TrainConfig& config, const std::string& recipe) {
  const CheckpointMeta& meta = checkpoint.manifest().meta;
  if (config.threads != 0 && config.threads != meta.threads) {
    log::warn("threads is {}, but was {}: the result will not be bitwise identical to the earlier run", config.threads,
              meta.threads);
  }
  require_same_settings(checkpoint, settings_text(recipe, config), config.rows());
  warn_of_another_platform(checkpoint);
}

/// A restarted group resumes from the checkpoints of the previous group, if there are any. A run that started from a
/// different run's checkpoint, and was killed before it saved its own, starts from there again.
RunPlace place_of(const Job& job, TrainerOptions& options) {
  const bool again = job.rank_info().restart_count > 0 && !options.run_dir.empty();
  const bool saved = again && has_step_folders(FileSystem::system(), options.run_dir / "checkpoints");
  if (again && (saved || options.resume == "none")) options.resume = "auto";
  const auto origin = options.resume == "auto" ? unsaved_origin(options.run_dir) : std::nullopt;
  if (origin) {
    log::note("{} has no checkpoint after the start of its run yet: it starts again from {}", options.run_dir.string(),
              origin->string());
    options.resume = origin->string();
  }
  RunPlace place = choose_place(options);
  place.resume = place.resume || again || origin.has_value();
  return place;
}

/// Sets the batch size of the resuming run; if `known` is 0, it has yet to be found.
void take_batch_size(TrainConfig& config, std::int64_t known) {
  if (known <= 0) return;
  config.batch_size = known;
  log::note("batch_size is auto: {}, as at the start of the run", known);
}

/// Sets batch_size from total_batch_size, if given.
void take_total_batch(TrainConfig& config) {
  if (config.total_batch_size == 0 || config.replicas == 0) return;
  const std::int64_t parts = config.replicas * config.accumulate_steps;
  if (config.total_batch_size % parts != 0) {
    throw UsageError(
        fmt::format("total_batch_size is {}, which is not divisible by {} x {} accumulated batches",
                    config.total_batch_size, counted(config.replicas, "replica", "replicas"), config.accumulate_steps),
        fmt::format("use a multiple of {}, or set batch_size instead", parts));
  }
  config.batch_size = config.total_batch_size / parts;
}

/// Returns the largest world size that the job may reach, so that nodes that join later have something to do. It does
/// not change when a node is lost.
std::int64_t widest_world(const Job& job) {
  const std::int64_t most = env::get_int("LOCKSTEP_MAX_WORLD_SIZE").value_or(0);
  return std::max<std::int64_t>(most, job.world_size());
}

/// Checks that each rank has at least one replica. Throws: TooManyRanks if the launcher can continue with fewer ranks;
/// UsageError.
void require_work_for_all(const Job& job, std::int64_t replicas, bool resumed) {
  if (replicas >= job.world_size()) return;
  const auto least = env::get_int("LOCKSTEP_MIN_WORLD_SIZE");
  if (least && *least <= replicas) throw TooManyRanks();
  const std::string processes = counted(replicas, "process", "processes");
  throw UsageError(fmt::format("{} on {}: each process needs a replica", counted(replicas, "replica", "replicas"),
                               counted(job.world_size(), "process", "processes")),
                   fmt::format("start at most {} (--nproc-per-node), or use one replica per process: {}{}", processes,
                               setting_words(fmt::format("replicas={}", job.world_size())),
                               resumed ? " " + option_words("allow-other-bits") : ""));
}

/// Divides the checkpoint's batches according to the settings. Returns the checkpoint's own division. `begun` is the
/// number of replicas that the run started with.
Division take_division(const Checkpoint& checkpoint, std::int64_t begun, bool may_change, TrainConfig& config) {
  const Division saved{.replicas = checkpoint.manifest().meta.replicas, .batch_size = batch_size_of(checkpoint)};
  if (config.replicas == 0) config.replicas = saved.replicas;
  const bool changes = config.replicas != saved.replicas;
  if (changes && !may_change) {
    throw UsageError(fmt::format("replicas is {}, but the checkpoint has {}", config.replicas, saved.replicas),
                     fmt::format("omit replicas, because the result depends on it; {} redivides the run's batches",
                                 option_words("allow-other-bits")));
  }
  if (!changes && begun == saved.replicas) {
    take_total_batch(config);
    return saved;
  }
  const Division now = changes ? divide_again(saved, config.replicas) : saved;
  take_total_batch(config);
  // The settings at the start of the run and the current settings describe the same batches.
  const std::int64_t given = config.batch_size.is_auto() ? saved.batch_size : config.batch_size.value();
  const bool as_begun = saved.samples() % begun == 0 && given == saved.samples() / begun;
  if (given == now.batch_size || as_begun) config.batch_size = saved.batch_size;
  return saved;
}

constexpr const char* kSkipped = "data.skipped_samples";

/// Returns the samples skipped by this run and its earlier parts, in the setting's format.
std::string skipped_text(const SkippedSamples& before, TrainConfig& config) {
  SkippedSamples all(config.data.skipped_samples);
  all.add(before);
  config.data.skipped_samples = all.to_maps();
  return ConfigFields::value_text(&config.data.skipped_samples);
}

void take_skipped(const StateDict& shared, TrainConfig& config) {
  ConfigTree settings;
  settings.set(fmt::format("{}={}", kSkipped, entry<std::string>(shared, kSkipped)), "rank 0");
  config.data.skipped_samples = SkippedSamples::in_settings(settings).to_maps();
}

void decide(const Job& job, TrainConfig& config, const StateDict& shared) {
  take_skipped(shared, config);
  config.replicas = entry<std::int64_t>(shared, "replicas");
  if (config.threads == 0) config.threads = entry<std::int64_t>(shared, "threads");
  const auto batch_size = entry<std::int64_t>(shared, "batch_size");
  const bool resumed = shared.count("step") != 0;
  const bool is_divided_anew = resumed && entry<std::int64_t>(shared, "begun.replicas") > 0;
  if ((config.batch_size.is_auto() || is_divided_anew) && batch_size > 0) config.batch_size = batch_size;
  if (config.replicas == 0) config.replicas = widest_world(job);
  if (config.threads == 0) config.threads = 1;
  take_total_batch(config);
  publish_replicas(job, config.replicas);
  require_work_for_all(job, config.replicas, resumed);
  config.rows().check();
  job.set_replicas(static_cast<int>(config.replicas));
}

/// Adds the names that the run's checkpoints should have: a process may be killed between the commit and the naming,
/// and a checkpoint without a name would be removed.
void name_bests(const RunState& run, const fs::path& folder) {
  FileSystem& files = FileSystem::system();
  const auto name = [&](const char* as, std::int64_t step) {
    const fs::path path = step_folder_of(folder, step);
    if (step > 0 && files.exists(path / "manifest.json")) name_checkpoint(files, folder, as, path);
  };
  if (run.best) name("best", run.best_step);
  name("best_stg1", run.stages.base_step);
}

/// Copies the checkpoint that the second stage starts from, if the run resumes in a different folder.
void bring_base(const Checkpoint& checkpoint, const TrainConfig& config, const fs::path& folder) {
  const RunState run = run_state_of(checkpoint.state("run"));
  if (is_of_run(checkpoint.path(), folder.parent_path())) return name_bests(run, folder);
  const std::int64_t step = run.stages.base_step;
  const bool is_past = run.stages.stage == 2 && !config.stages.roll_back;
  if (step == 0 || is_past || !config.has_second_stage()) return;
  const fs::path base = step_folder_of(checkpoint.path().parent_path(), step);
  if (!FileSystem::system().exists(base)) {
    throw UsageError(
        fmt::format("the second stage needs the first stage's best checkpoint, {}, which is not next to {}",
                    base.filename().string(), checkpoint.path().string()),
        "resume from the run's own folder, or load only the weights: " + option_words("init-from"));
  }
  copy_checkpoint(FileSystem::system(), base, folder, "best_stg1");
}

/// Replaces a URL with the path of the downloaded file.
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

/// Compares the settings with the checkpoint's, and adds the checkpoint's position and decided settings to `shared`.
void go_on_from(const Checkpoint& checkpoint, TrainConfig& config, const TrainerOptions& options, StateDict& shared) {
  const RunState run = run_state_of(checkpoint.state("run"));
  const std::int64_t begun = run.begun_replicas > 0 ? run.begun_replicas : checkpoint.manifest().meta.replicas;
  const Division saved = take_division(checkpoint, begun, options.allow_other_bits, config);
  compare(checkpoint, config, options.recipe);
  const bool changes = config.replicas != saved.replicas;
  const Division now = changes ? divide_again(saved, config.replicas) : saved;
  if (changes) log::warn("{}", change_text(saved, now));
  config.batch_size = now.batch_size;
  shared["replicas"] = now.replicas;
  shared["batch_size"] = now.batch_size;
  shared["threads"] = checkpoint.manifest().meta.threads;
  shared["begun.replicas"] = begun == now.replicas ? std::int64_t{0} : begun;
  shared.merge(checkpoint.state("run"));
  shared["digest_fold"] = static_cast<std::int64_t>(view::fold_of(checkpoint.manifest().meta.digest_fold));
}

/// Does rank 0's part: opens the run folder, finds the checkpoint, and returns the facts for the other ranks.
StateDict find_out(const Job& job, TrainConfig& config, TrainerOptions& options, Start& start,
                   std::optional<RunFolder>& folder) {
  StateDict shared;
  fetch_start(options);
  const RunPlace place = place_of(job, options);
  const bool is_first = job.rank_info().restart_count == 0;
  folder.emplace(place.path,
                 RunFolderOptions{.resume = place.resume,
                                  .experiment = options.experiment,
                                  .wait_for_lock = is_first ? std::chrono::milliseconds(0) : job.timeout()});
  remove_checkpoint_leftovers(FileSystem::system(), folder->checkpoints());
  start.in_old_folder = place.resume;
  start.checkpoint = find_start(options, place, config.checkpoint.require_finite);
  // A run killed before its first checkpoint restarts with the same settings, on any number of ranks.
  const BegunWith begun =
      place.resume && !start.checkpoint ? begun_with(place.path / folder->settings_file()) : BegunWith{};
  if (config.replicas == 0) config.replicas = begun.replicas;
  if (config.threads == 0) config.threads = begun.threads;
  if (config.batch_size.is_auto()) {
    take_batch_size(config, start.checkpoint ? batch_size_of(*start.checkpoint) : begun.batch_size);
  }
  config.rows().check();  // the settings file of a killed run may hold any values
  shared["replicas"] = config.replicas;
  shared["threads"] = config.threads;
  shared["batch_size"] = config.batch_size.is_auto() ? 0 : config.batch_size.value();
  shared["run_dir"] = folder->path().string();
  shared["skips_more"] = !config.data.skip_samples.empty();
  SkippedSamples skipped = place.resume ? skipped_in(place.path) : SkippedSamples();
  if (start.checkpoint) skipped.add(skipped_by(*start.checkpoint));
  shared[kSkipped] = skipped_text(skipped, config);
  if (start.checkpoint) go_on_from(*start.checkpoint, config, options, shared);
  keep_origin(*folder, start.checkpoint);
  if (!start.checkpoint) return shared;
  bring_base(*start.checkpoint, config, folder->checkpoints());
  shared["saved_here"] = is_of_run(start.checkpoint->path(), folder->path());
  return shared;
}

/// Returns the settings that have to be equal on every rank. The hosts may have their test sets in different places,
/// but either all ranks evaluate or none.
std::map<std::string, std::string> settings_of_all(const std::string& settings, const TrainConfig& config) {
  std::map<std::string, std::string> common = common_settings(settings, config.rows());
  if (config.eval_every_epochs > 0) common["data.test"] = config.data.test.empty() ? "empty" : "set";
  return common;
}

}  // namespace

std::string counted(std::int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

Start agree_on_start(const Job& job, TrainConfig& config, TrainerOptions& options, std::optional<RunFolder>& folder) {
  Start start;
  StateDict shared;
  do_on_main(job, [&] { shared = find_out(job, config, options, start, folder); });
  shared = share_state(shared, job.group());
  start.resumed = shared.count("step") != 0;
  if (start.resumed) start.run = run_state_of(shared);
  // If the run has had only one stage so far, its best is taken as the first stage's best.
  StageState& stages = start.run.stages;
  if (config.stages.stop_epoch > 0 && stages.base_step == 0 && start.run.best) stages.base_step = start.run.best_step;
  if (start.resumed) start.saved_here = entry<bool>(shared, "saved_here");
  start.run_dir = entry<std::string>(shared, "run_dir");
  start.skips_more = entry<bool>(shared, "skips_more");
  decide(job, config, shared);
  set_max_pixels(config.data.max_pixels);
  start.settings = settings_text(options.recipe, config);
  if (config.checkpoint.sharded) require_shared_folder(job, folder ? folder->checkpoints() : "");
  if (job.world_size() > 1) lockstep::require_same_settings(job.group(), settings_of_all(start.settings, config));
  return start;
}

}  // namespace lockstep::train
