// SPDX-License-Identifier: Apache-2.0
#include "train/resume/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/train/run_folder.h"
#include "train/plan/run_state.h"
#include "train/settings/configuration.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kShown = 16;

/// Returns the smallest divisors, starting at 1; the divisors nearest to the requested number would be harder to read.
std::vector<std::int64_t> divisors(std::int64_t samples) {
  std::vector<std::int64_t> found;
  for (std::int64_t parts = 1; parts <= samples && found.size() < kShown; ++parts) {
    if (samples % parts == 0) found.push_back(parts);
  }
  return found;
}

}  // namespace

Division divide_again(const Division& before, std::int64_t replicas) {
  const std::int64_t samples = before.samples();
  if (samples % replicas != 0) {
    throw UsageError(
        fmt::format("the run's batches of {} samples ({} x {} replicas) cannot be divided into {} replicas", samples,
                    before.batch_size, before.replicas, replicas),
        fmt::format("numbers of replicas that divide the batches evenly: {}; to start a run with other batches, use {}",
                    fmt::join(divisors(samples), ", "), option_words("init-from")));
  }
  return {.replicas = replicas, .batch_size = samples / replicas};
}

std::string change_text(const Division& before, const Division& now) {
  return fmt::format(
      "replicas is {}, but was {}: each batch of {} samples is divided into {} parts of {} instead of {} of {}. Steps, "
      "samples and learning rate stay the same; summation order, dropout's random numbers and batch norm statistics "
      "are those of {} replicas, so the result is not bitwise identical",
      now.replicas, before.replicas, now.samples(), now.replicas, now.batch_size, before.replicas, before.batch_size,
      now.replicas);
}

namespace fs = std::filesystem;

namespace {

/// Returns the newest checkpoint that a run may resume from.
std::optional<fs::path> newest_in(const fs::path& folder, bool require_finite) {
  FileSystem& files = FileSystem::system();
  return require_finite ? find_newest_finite(files, folder) : find_newest_valid(files, folder);
}

void require_newest(const Checkpoint& checkpoint, bool require_finite) {
  const auto newest = newest_in(checkpoint.path().parent_path(), require_finite);
  if (!newest || newest->filename() <= checkpoint.path().filename()) return;
  throw UsageError(fmt::format("{} is not its run's newest checkpoint; the newest is {}", checkpoint.path().string(),
                               newest->filename().string()),
                   fmt::format("{} starts a new run from there; {} continues from the newest",
                               option_words("run-dir", "DIR"), option_words("resume", "auto")));
}

/// Opens the checkpoint that `source` names. If a run's newest checkpoint is not finite, it opens the newest finite
/// one; a step folder is opened as given.
Checkpoint open_finite(const std::string& source, bool require_finite) {
  FileSystem& files = FileSystem::system();
  Checkpoint checkpoint = load_checkpoint(source, files);
  const std::string faults = require_finite ? not_finite_in(files, checkpoint.path()) : "";
  if (faults.empty()) return checkpoint;
  const fs::path folder = checkpoint.path().parent_path();
  const auto good = find_newest_finite(files, folder, checkpoint.step());
  if (!good) {
    throw DataError(
        fmt::format("{}: {}, and there is no good checkpoint before it", checkpoint.path().string(), faults),
        "start again in another folder; checkpoint.require_finite=false resumes from this checkpoint anyway");
  }
  const bool is_newest = fs::is_directory(source) && !fs::equivalent(source, checkpoint.path());
  if (is_newest) {
    log::warn("{} is skipped: {}; the run resumes from {}", checkpoint.path().string(), faults,
              good->filename().string());
    return load_checkpoint(good->string(), files);
  }
  throw DataError(
      fmt::format("{}: {}", checkpoint.path().string(), faults),
      fmt::format(
          "checkpoint.require_finite=false resumes from this checkpoint anyway; the newest good one before it: {}",
          option_words("resume", good->string())));
}

std::int64_t whole_number_at(const ConfigTree& tree, const std::string& key) {
  const auto found = tree.values().find(key);
  return found == tree.values().end() ? 0 : std::strtoll(found->second.yaml.c_str(), nullptr, 10);
}

}  // namespace

BegunWith begun_with(const fs::path& settings) {
  if (!FileSystem::system().exists(settings)) return {};
  const ConfigTree tree = ConfigTree::from_file(settings);
  return {.replicas = whole_number_at(tree, "replicas"),
          .threads = whole_number_at(tree, "threads"),
          .batch_size = whole_number_at(tree, "batch_size")};
}

SkippedSamples skipped_in(const fs::path& run_folder) {
  SkippedSamples skipped;
  for (const bool experiment : {false, true}) {
    const fs::path settings = run_folder / RunFolder::settings_file(experiment);
    if (run_folder.empty() || !FileSystem::system().exists(settings)) continue;
    skipped.add(SkippedSamples::in_settings(ConfigTree::from_file(settings)));
  }
  return skipped;
}

SkippedSamples skipped_by(const Checkpoint& checkpoint) {
  SkippedSamples skipped = skipped_in(run_folder_of(checkpoint.path()));
  if (const auto settings = checkpoint.text("config.yml")) {
    skipped.add(SkippedSamples::in_settings(ConfigTree::from_text(*settings, "the checkpoint's config.yml")));
  }
  return skipped;
}

std::int64_t batch_size_of(const Checkpoint& checkpoint) {
  const auto settings = checkpoint.text("config.yml");
  if (!settings) return 0;
  const std::int64_t size =
      whole_number_at(ConfigTree::from_text(*settings, "the checkpoint's config.yml"), "batch_size");
  constexpr std::int64_t kMost = 10'000'000;  // the limit of the setting, so that sums do not overflow
  if (size >= 0 && size <= kMost) return size;
  throw DataError(
      fmt::format("the checkpoint's config.yml says batch_size is {}; valid values are 1 to {}", size, kMost),
      or_only_weights("use another checkpoint"));
}

void warn_of_another_platform(const Checkpoint& checkpoint) {
  const std::string difference = platform_difference(checkpoint.manifest());
  if (difference.empty()) return;
  log::warn("{} was {}: the result will not be bitwise identical to the earlier run", checkpoint.path().string(),
            difference);
}

fs::path run_folder_of(const fs::path& step_folder) {
  const fs::path checkpoints = fs::absolute(step_folder).lexically_normal().parent_path();
  return checkpoints.filename() == "checkpoints" ? checkpoints.parent_path() : fs::path();
}

bool is_of_run(const fs::path& step_folder, const fs::path& run) {
  const fs::path own = run_folder_of(step_folder);
  return !own.empty() && fs::weakly_canonical(own) == fs::weakly_canonical(run);
}

RunPlace choose_place(const TrainerOptions& options) {
  const auto new_folder = [&] { return make_new_folder(RunFolder::default_path(options.recipe)); };
  if (options.resume == "none") return {options.run_dir.empty() ? new_folder() : options.run_dir, false};
  if (options.resume == "auto") {
    if (options.run_dir.empty())
      throw UsageError("resume=auto needs a run folder", "set " + option_words("run-dir", "DIR"));
    return {options.run_dir, true};
  }
  if (fs::is_regular_file(options.resume)) {
    throw DataError(
        fmt::format(
            "{} is a weights file: it lacks the rest of a run's state (optimizer, schedule and position in the data)",
            options.resume),
        "start a new run from its weights: " + option_words("init-from", options.resume));
  }
  const fs::path step_folder = resolve_checkpoint(options.resume);
  const fs::path own = run_folder_of(step_folder);
  if (options.run_dir.empty()) return {own.empty() ? new_folder() : own, !own.empty()};
  return {options.run_dir, is_of_run(step_folder, options.run_dir)};
}

std::optional<Checkpoint> find_start(const TrainerOptions& options, const RunPlace& place, bool require_finite) {
  if (options.resume == "none") return std::nullopt;
  if (options.resume != "auto") {
    Checkpoint checkpoint = open_finite(options.resume, require_finite);
    // A restarted group, too, may begin at an earlier checkpoint of a different folder.
    if (is_of_run(checkpoint.path(), place.path)) require_newest(checkpoint, require_finite);
    return checkpoint;
  }
  FileSystem& files = FileSystem::system();
  if (has_step_folders(files, place.path / "checkpoints")) return open_finite(place.path.string(), require_finite);
  log::note("{} holds no checkpoint yet: training starts from the beginning", place.path.string());
  return std::nullopt;
}

void require_same_settings(const Checkpoint& checkpoint, const std::string& settings, const ConfigFields& rows) {
  const auto before = checkpoint.text("config.yml");
  if (!before) {
    throw DataError(fmt::format("{} does not contain its training settings", checkpoint.path().string()),
                    only_own_runs());
  }
  std::vector<std::string> words;
  for (const Difference& difference : differences(*before, settings, rows)) {
    // A run may start averaging its weights; the Trainer reports that.
    if (difference.resume == OnResume::kFreeToBegin && !checkpoint.has("ema")) continue;
    words.push_back(fmt::format("{} is {}, but was {}", difference.key, difference.now, difference.before));
  }
  if (words.empty()) return;
  throw UsageError(fmt::format("{} was trained with other settings: {}", checkpoint.path().string(), text::join(words)),
                   or_only_weights("continue with the old settings"));
}

}  // namespace lockstep::train
