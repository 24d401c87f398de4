// SPDX-License-Identifier: Apache-2.0
// From what a user typed to a checkpoint whose bytes are proved.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "checkpoint/folder.h"
#include "checkpoint/manifest_json.h"
#include "checkpoint/safetensors_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr const char* kWays = "give a step folder, a run folder (its newest valid checkpoint) or RUN:NAME";
constexpr const char* kTornHint = "take another: the run folder alone means its newest valid checkpoint";

/// Only a folder has an entry "."; a missing path and a file have none.
bool is_folder(FileSystem& files, const fs::path& path) { return files.exists(path / "."); }

/// A run folder's "checkpoints", or the folder itself.
fs::path checkpoints_of(FileSystem& files, const fs::path& run) {
  return is_folder(files, run / "checkpoints") ? run / "checkpoints" : run;
}

bool is_step_folder(FileSystem& files, const fs::path& path) {
  return files.exists(path / kManifestName) || parse_step_name(path.filename().string()).has_value();
}

fs::path newest_of(FileSystem& files, const fs::path& run) {
  const fs::path folder = checkpoints_of(files, run);
  if (auto newest = find_newest_valid(files, folder)) return std::move(*newest);
  const auto steps = list_steps(files, folder).size();
  throw DataError(steps == 0 ? fmt::format("{} holds no checkpoint", run.string())
                             : fmt::format("none of the {} checkpoints in {} is whole", steps, folder.string()),
                  steps == 0 ? kWays : fmt::format("lockstep checkpoint verify {}", run.string()));
}

}  // namespace

std::optional<fs::path> find_newest_valid(FileSystem& files, const fs::path& folder) {
  for (const StepFolder& step : list_steps(files, folder)) {
    const VerifyReport report = verify_checkpoint(files, step.path);
    if (report.ok()) return step.path;
    log::note("{} is skipped: {}", step.path.string(), report.problem());
  }
  return std::nullopt;
}

fs::path resolve_checkpoint(const std::string& where, FileSystem& files) {
  if (where.empty()) throw DataError("no checkpoint is named", kWays);
  fs::path path = fs::path(where).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/" is "runs/a"
  if (is_folder(files, path)) return is_step_folder(files, path) ? path : newest_of(files, path);
  if (files.exists(path)) throw DataError(fmt::format("{} is a file; a checkpoint is a folder", where), kWays);
  const auto colon = where.rfind(':');
  if (colon != std::string::npos && is_folder(files, where.substr(0, colon))) {
    return find_named_checkpoint(files, checkpoints_of(files, where.substr(0, colon)), where.substr(colon + 1));
  }
  throw DataError(fmt::format("checkpoint {} does not exist", where), kWays);
}

Checkpoint load_checkpoint(const std::string& where, FileSystem& files) {
  const fs::path path = resolve_checkpoint(where, files);
  VerifyReport report = verify_checkpoint(files, path);
  if (!report.ok()) throw DataError(report.problem(), kTornHint);
  return {files, path, std::move(report.manifest)};
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [file, digest] : manifest_.files) {
    if (file.ends_with(kStateSuffix)) names.push_back(file.substr(0, file.size() - kStateSuffix.size()));
  }
  return names;
}

bool Checkpoint::has(const std::string& name) const {
  return manifest_.files.count(name + std::string(kStateSuffix)) != 0;
}

StateDict Checkpoint::state(const std::string& name) const {
  const auto entry = manifest_.files.find(name + std::string(kStateSuffix));
  if (entry == manifest_.files.end()) {
    throw DataError(
        fmt::format("checkpoint {} has no state '{}'{}", path_.string(), name, text::did_you_mean(name, names())),
        "it has " + text::join(names()));
  }
  const std::string file = (path_ / entry->first).string();
  auto bytes = std::make_shared<std::string>(files_->read(file));
  if (const std::string problem = compare(*bytes, entry->second); !problem.empty()) {
    throw DataError(fmt::format("{} {}", file, problem), kTornHint);
  }
  return state_from_bytes(bytes, file);
}

}  // namespace lockstep
