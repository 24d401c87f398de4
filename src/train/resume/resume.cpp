// SPDX-License-Identifier: Apache-2.0
#include "train/resume/resume.h"

#include <fmt/format.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/train/run_folder.h"
#include "train/settings/configuration.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

void require_newest(const Checkpoint& checkpoint) {
  const auto newest = find_newest_valid(FileSystem::system(), checkpoint.path().parent_path());
  if (!newest || newest->filename() <= checkpoint.path().filename()) return;
  throw UsageError(fmt::format("{} is not the newest of its run, that is {}", checkpoint.path().string(),
                               newest->filename().string()),
                   "--run-dir DIR begins a run of its own from there; --resume auto goes on from the newest");
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

std::int64_t batch_size_of(const Checkpoint& checkpoint) {
  const auto settings = checkpoint.text("config.yml");
  if (!settings) return 0;
  const std::int64_t size =
      whole_number_at(ConfigTree::from_text(*settings, "the checkpoint's config.yml"), "batch_size");
  constexpr std::int64_t kMost = 10'000'000;  // as the setting's range; sums of it are then no overflow
  if (size >= 0 && size <= kMost) return size;
  throw DataError(fmt::format("the checkpoint's config.yml says batch_size is {}; 1 to {} make sense", size, kMost),
                  "take another checkpoint, or only its weights: --init-from instead of --resume");
}

void warn_of_another_platform(const Checkpoint& checkpoint) {
  const std::string difference = platform_difference(checkpoint.manifest());
  if (difference.empty()) return;
  log::warn("{} was {}: the result will not have the bits of the run before", checkpoint.path().string(), difference);
}

fs::path run_folder_of(const fs::path& step_folder) {
  const fs::path checkpoints = fs::absolute(step_folder).lexically_normal().parent_path();
  return checkpoints.filename() == "checkpoints" ? checkpoints.parent_path() : fs::path();
}

RunPlace choose_place(const TrainerOptions& options) {
  if (options.resume == "none") {
    return {options.run_dir.empty() ? RunFolder::default_path(options.recipe) : options.run_dir, false};
  }
  if (options.resume == "auto") {
    if (options.run_dir.empty()) throw UsageError("resume: auto needs a run folder", "set run_dir (--run-dir DIR)");
    return {options.run_dir, true};
  }
  const fs::path own = run_folder_of(resolve_checkpoint(options.resume));
  if (options.run_dir.empty()) return {own.empty() ? RunFolder::default_path(options.recipe) : own, !own.empty()};
  return {options.run_dir, !own.empty() && fs::weakly_canonical(options.run_dir) == fs::weakly_canonical(own)};
}

std::optional<Checkpoint> find_start(const TrainerOptions& options, const RunPlace& place) {
  if (options.resume == "none") return std::nullopt;
  if (options.resume != "auto") {
    Checkpoint checkpoint = read_checkpoint(options.resume);
    if (place.resume) require_newest(checkpoint);
    return checkpoint;
  }
  FileSystem& files = FileSystem::system();
  if (has_step_folders(files, place.path / "checkpoints")) return read_checkpoint(place.path.string());
  log::note("{} holds no checkpoint yet: training starts from the beginning", place.path.string());
  return std::nullopt;
}

void require_same_settings(const Checkpoint& checkpoint, const std::string& settings, const ConfigFields& rows) {
  const auto before = checkpoint.text("config.yml");
  if (!before) {
    throw DataError(fmt::format("{} does not hold the settings it was trained with", checkpoint.path().string()),
                    "only checkpoints of the Trainer can be resumed; --init-from takes the weights of any");
  }
  std::vector<std::string> words;
  for (const Difference& difference : differences(*before, settings, rows)) {
    // A run may begin to average its weights; the Trainer reports it.
    if (difference.resume == OnResume::kFreeToBegin && !checkpoint.has("ema")) continue;
    words.push_back(fmt::format("{} is {} and was {}", difference.key, difference.now, difference.before));
  }
  if (words.empty()) return;
  throw UsageError(fmt::format("{} was trained with other settings: {}", checkpoint.path().string(), text::join(words)),
                   "go on with the old ones, or take only its weights: --init-from instead of --resume");
}

}  // namespace lockstep::train
