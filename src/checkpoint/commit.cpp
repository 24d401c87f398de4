// SPDX-License-Identifier: Apache-2.0
// The commit protocol: everything into a temporary folder, everything durable, then one rename.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/folder.h"
#include "checkpoint/hash.h"
#include "checkpoint/manifest_json.h"
#include "checkpoint/platform.h"
#include "checkpoint/room.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// What went wrong while cleaning up is not what the caller has to hear.
void remove_quietly(FileSystem& files, const fs::path& path) noexcept {
  try {
    files.remove(path);
  } catch (const std::exception& error) {
    log::debug("{}", error.what());
  }
}

/// A folder that goes away again unless it was renamed.
class TemporaryFolder {
 public:
  TemporaryFolder(FileSystem& files, fs::path path) : files_(files), path_(std::move(path)) {
    files_.make_folder(path_);
  }
  ~TemporaryFolder() { remove_quietly(files_, path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  FileSystem& files_;
  fs::path path_;
};

/// A process commits to one folder from one thread, so what bears our own pid is left over as well (pids come again).
bool is_leftover(const std::string& name) {
  const auto pid = parse_temporary_pid(name);
  if (!pid || *pid <= 0) return false;
  return *pid == ::getpid() || (::kill(*pid, 0) != 0 && errno == ESRCH);
}

void check_names(const CheckpointStates& states, const CheckpointTexts& texts) {
  for (const auto& [name, state] : states) {
    if (!is_plain_word(name)) {
      throw UsageError(fmt::format("'{}' is no name for a state of a checkpoint", name),
                       "use letters, digits, '_' and '-'");
    }
  }
  for (const auto& [file, text] : texts) {
    if (is_plain_file_name(file) && file != kManifestName && !file.ends_with(kStateSuffix)) continue;
    throw UsageError(fmt::format("'{}' is no name for a text of a checkpoint", file),
                     fmt::format("use letters, digits, '_', '-' and '.', not in front; {} and *{} are taken",
                                 kManifestName, kStateSuffix));
  }
}

FileDigest write_text(FileSystem& files, const fs::path& path, const std::string& text) {
  HashingFile file(files.create(path));
  file.append(text.data(), text.size());
  return file.finish();
}

/// Everything but the manifest itself, which it returns.
Manifest write_content(FileSystem& files, const fs::path& folder, const CheckpointMeta& meta,
                       const CheckpointStates& states, const CheckpointTexts& texts) {
  Manifest manifest{kFormatVersion, meta, tensor::libtorch_version(), instruction_set(), {}};
  for (const auto& [name, state] : states) {
    const std::string file = name + std::string(kStateSuffix);
    manifest.files[file] = write_safetensors(files, folder / file, state);
  }
  for (const auto& [file, text] : texts) manifest.files[file] = write_text(files, folder / file, text);
  return manifest;
}

fs::path free_bad_path(FileSystem& files, const fs::path& folder, std::int64_t step) {
  std::int64_t n = 1;
  while (files.exists(folder / bad_name(step, n))) ++n;
  return folder / bad_name(step, n);
}

/// Moves the folder of the same name aside and the new one in; back again where that fails.
void replace(FileSystem& files, const fs::path& from, const fs::path& target, const fs::path& aside) {
  files.rename(target, aside);
  try {
    files.rename(from, target);
  } catch (const Error&) {
    try {
      files.rename(aside, target);
    } catch (const Error& error) {
      log::warn("{} is still there as {}: {}", target.string(), aside.string(), error.message());
    }
    throw;
  }
}

/// Why the folder that is there is not the one of `manifest`; "" where it is. What cannot be read is not the same.
std::string difference(FileSystem& files, const fs::path& target, const Manifest& manifest) {
  try {
    const VerifyReport report = verify_checkpoint(files, target);
    if (!report.ok()) return report.problem();
    return report.manifest == manifest ? "" : "it has another content";
  } catch (const IoError& error) {
    return error.message();
  }
}

/// With each parent that is missing: a new folder is durable when the folder that holds it is synced.
void make_folder_durably(FileSystem& files, const fs::path& folder) {
  if (files.exists(folder)) return;
  const fs::path parent = folder.parent_path();
  if (!parent.empty()) make_folder_durably(files, parent);
  files.make_folder(folder);
  files.sync_folder(parent.empty() ? fs::path(".") : parent);
}

fs::path commit(FileSystem& files, const fs::path& folder, const CheckpointMeta& meta, const CheckpointStates& states,
                const CheckpointTexts& texts) {
  fs::path target = folder / step_name(meta.step);
  const TemporaryFolder temporary(files, folder / temporary_name(step_name(meta.step), ::getpid()));
  const Manifest manifest = write_content(files, temporary.path(), meta, states, texts);
  (void)write_text(files, temporary.path() / kManifestName, manifest_to_json(manifest));
  files.sync_folder(temporary.path());

  if (!files.exists(target)) {
    files.rename(temporary.path(), target);
  } else if (const std::string why = difference(files, target, manifest); !why.empty()) {
    const fs::path aside = free_bad_path(files, folder, meta.step);
    replace(files, temporary.path(), target, aside);
    log::note("{} is written anew; what was there is kept as {} ({})", target.string(), aside.filename().string(), why);
  }
  files.sync_folder(folder);
  return target;
}

}  // namespace

void remove_checkpoint_leftovers(FileSystem& files, const fs::path& folder) {
  for (const std::string& name : files.list(folder)) {
    if (is_leftover(name)) remove_quietly(files, folder / name);
  }
}

fs::path commit_checkpoint(FileSystem& files, const fs::path& folder, const CheckpointMeta& meta,
                           const CheckpointStates& states, const CheckpointTexts& texts) {
  check_names(states, texts);
  if (meta.step < 0) throw UsageError(fmt::format("a checkpoint of step {}", meta.step));
  try {
    make_folder_durably(files, folder);
    remove_checkpoint_leftovers(files, folder);
    return commit(files, folder, meta, states, texts);
  } catch (const IoError& error) {
    // Only now, with what was written of it removed, is the room that one can count on free again.
    throw IoError(fmt::format("the checkpoint of step {} is not saved: {}{}", meta.step, error.message(),
                              missing_room(folder, need_of(states, texts))),
                  fmt::format("{}; --resume auto goes on from the checkpoint before it",
                              error.hint().empty() ? "see that this folder can be written" : error.hint()));
  }
}

std::vector<fs::path> prune_checkpoints(FileSystem& files, const fs::path& folder, std::int64_t keep_last) {
  std::vector<StepFolder> steps = list_steps(files, folder);
  std::erase_if(steps, [](const StepFolder& step) { return step.name.bad != 0; });
  if (keep_last <= 0 || steps.size() <= static_cast<std::size_t>(keep_last)) return {};
  if (const auto newest = verify_checkpoint(files, steps.front().path); !newest.ok()) {
    log::note("nothing is pruned: {}", newest.problem());
    return {};
  }
  std::vector<fs::path> spared;
  for (const std::string& name : checkpoint_names(files, folder)) {
    if (const auto named = follow_name(files, folder, name)) spared.push_back(named.value());
  }
  // Renamed first, durably: a removal that is cut off leaves a leftover, not a torn checkpoint.
  std::vector<fs::path> removed;
  std::vector<fs::path> doomed;
  for (auto step = steps.begin() + keep_last; step != steps.end(); ++step) {
    if (std::find(spared.begin(), spared.end(), step->path) != spared.end()) continue;
    doomed.push_back(folder / temporary_name(step->path.filename().string(), ::getpid()));
    files.rename(step->path, doomed.back());
    removed.push_back(step->path);
  }
  if (!doomed.empty()) files.sync_folder(folder);
  for (const fs::path& path : doomed) files.remove(path);
  return removed;
}

}  // namespace lockstep
