// SPDX-License-Identifier: Apache-2.0
// Chooses which checkpoints to keep.
#include <algorithm>

#include "checkpoint/folder/folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/trace.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

std::vector<fs::path> named_checkpoints(FileSystem& files, const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const std::string& name : checkpoint_names(files, folder)) {
    if (const auto named = follow_name(files, folder, name)) paths.push_back(named.value());
  }
  return paths;
}

/// Returns the step folders that may be removed, judging by their numbers and names; none if the newest fails
/// verification.
std::vector<fs::path> choose_by_number(FileSystem& files, const fs::path& folder, const Retention& retention) {
  std::vector<StepFolder> steps = list_steps(files, folder);
  std::erase_if(steps, [](const StepFolder& step) { return step.name.bad != 0; });
  const auto keep_last = static_cast<std::size_t>(std::max<std::int64_t>(retention.keep_last, 0));
  if (keep_last == 0 || steps.size() <= keep_last) return {};
  if (const auto newest = verify_checkpoint(files, steps.front().path); !newest.ok()) {
    log::note("nothing is pruned: {}", newest.problem());
    return {};
  }
  const std::vector<fs::path> named = named_checkpoints(files, folder);
  std::vector<fs::path> prunable;
  for (std::size_t i = keep_last; i < steps.size(); ++i) {
    const bool milestone = retention.keep_every > 0 && steps[i].name.step % retention.keep_every == 0;
    if (milestone || std::find(named.begin(), named.end(), steps[i].path) != named.end()) continue;
    prunable.push_back(steps[i].path);
  }
  return prunable;
}

/// Removes a temporary folder. One that cannot be removed stays as a leftover: on NFS, a folder cannot be removed while
/// another process reads one of its files.
void remove_or_leave(FileSystem& files, const fs::path& path) {
  try {
    files.remove(path);
  } catch (const IoError& error) {
    log::warn("{}; the next save to this folder tries again", error.message());
  }
}

/// Renames the folders durably, then removes them, so that an interruption does not leave a torn checkpoint.
void remove_all(FileSystem& files, const fs::path& folder, const std::vector<fs::path>& paths) {
  std::vector<fs::path> doomed;
  for (const fs::path& path : paths) {
    doomed.push_back(folder / own_temporary_name(path.filename().string()));
    files.rename(path, doomed.back());
  }
  if (!doomed.empty()) files.sync_folder(folder);
  for (const fs::path& path : doomed) remove_or_leave(files, path);
}

}  // namespace

std::vector<fs::path> choose_prunable(FileSystem& files, const fs::path& folder, const Retention& retention) {
  std::vector<fs::path> prunable = choose_by_number(files, folder, retention);
  if (prunable.empty()) return {};
  if (const auto good = find_newest_finite(files, folder)) std::erase(prunable, *good);
  return prunable;
}

std::vector<fs::path> prune_checkpoints(FileSystem& files, const fs::path& folder, const Retention& retention) {
  const trace::Span span({.name = "save"});
  std::vector<fs::path> removed = choose_prunable(files, folder, retention);
  remove_all(files, folder, removed);
  return removed;
}

void put_checkpoints_aside(FileSystem& files, const fs::path& folder, std::int64_t step) {
  for (const checkpoint::StepFolder& found : checkpoint::list_steps(files, folder)) {
    if (found.name.step <= step || found.name.bad != 0) continue;
    const fs::path aside = found.path.string() + ".suspect";
    if (files.exists(aside)) remove_all(files, folder, {aside});
    files.rename(found.path, aside);
    log::note("{} is set aside as {}", found.path.string(), aside.filename().string());
  }
  for (const std::string& name : files.list(folder)) {
    if (checkpoint::is_plain_word(name) && !checkpoint::parse_step_name(name) &&
        !checkpoint::follow_name(files, folder, name)) {
      files.remove(folder / name);
    }
  }
}

void checkpoint::prune_all_but(FileSystem& files, const fs::path& folder, const Retention& retention,
                               const fs::path& good) {
  std::vector<fs::path> prunable = choose_by_number(files, folder, retention);
  std::erase_if(prunable, [&good](const fs::path& path) { return path.filename() == good.filename(); });
  remove_all(files, folder, prunable);
}

}  // namespace lockstep
