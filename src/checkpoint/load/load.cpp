// SPDX-License-Identifier: Apache-2.0
// Finds and verifies the checkpoint that a user's argument names.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "checkpoint/folder/folder.h"
#include "checkpoint/folder/kept_files.h"
#include "checkpoint/formats/finite_tensors.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/part_file.h"
#include "checkpoint/formats/read_file.h"
#include "checkpoint/formats/safetensors_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr const char* kWays = "use a step folder, a run folder (its newest valid checkpoint) or RUN:NAME";
constexpr const char* kTakeAnotherHint =
    "use another checkpoint: the run folder by itself selects the newest valid one";

/// Returns true for a folder: a missing path and a file have no entry ".".
bool is_folder(FileSystem& files, const fs::path& path) { return files.exists(path / "."); }

/// Returns a run folder's "checkpoints", or the folder itself.
fs::path checkpoints_of(FileSystem& files, const fs::path& run) {
  return is_folder(files, run / "checkpoints") ? run / "checkpoints" : run;
}

bool is_step_folder(FileSystem& files, const fs::path& path) {
  return files.exists(path / kManifestName) || parse_step_name(path.filename().string()).has_value();
}

/// The newest step folder in which every byte verifies, and the torn ones that were checked before it.
struct Newest {
  std::optional<VerifyReport> whole;
  std::vector<VerifyReport> torn;
};

/// Verifies a checkpoint. An unreadable checkpoint counts as torn, because an older one may still be readable.
VerifyReport verify_or_unreadable(FileSystem& files, const fs::path& step_folder, KeptFiles* kept) {
  if (kept != nullptr) kept->files.clear();
  try {
    return verify_and_keep(files, step_folder, kept);
  } catch (const IoError& error) {
    return {step_folder, {}, {{kManifestName, error.message()}}};
  }
}

Newest look_for_newest(FileSystem& files, const fs::path& folder, KeptFiles* kept = nullptr) {
  Newest newest;
  for (const StepFolder& step : list_steps(files, folder)) {
    VerifyReport report = verify_or_unreadable(files, step.path, kept);
    if (report.ok()) {
      newest.whole = std::move(report);
      break;
    }
    log::note("{} is skipped: {}", step.path.string(), report.problem());
    newest.torn.push_back(std::move(report));
  }
  return newest;
}

VerifyReport newest_of(FileSystem& files, const fs::path& run, KeptFiles* kept) {
  const fs::path folder = checkpoints_of(files, run);
  Newest newest = look_for_newest(files, folder, kept);
  if (newest.whole) return std::move(*newest.whole);
  if (newest.torn.empty()) throw DataError(fmt::format("{} holds no checkpoint", run.string()), kWays);
  const VerifyReport& first = newest.torn.front();
  throw DataError(fmt::format("no checkpoint in {} passes verification ({} checked); the first: {}", folder.string(),
                              newest.torn.size(), first.problem()),
                  fmt::format("run lockstep checkpoint verify {} to see all of its faults; replace it with an intact "
                              "copy, or start again in another folder",
                              first.path.string()));
}

/// The checkpoint that `source` names. The newest one of a run folder is already verified, others are not.
struct Found {
  fs::path path;
  std::optional<VerifyReport> report;
};

Found find(const std::string& source, FileSystem& files, KeptFiles* kept = nullptr) {
  if (source.empty()) throw DataError("the name of the checkpoint is empty", kWays);
  fs::path path = fs::path(source).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/" is "runs/a"
  if (is_folder(files, path)) {
    if (is_step_folder(files, path)) return {path, {}};
    VerifyReport newest = newest_of(files, path, kept);
    return {newest.path, std::move(newest)};
  }
  if (files.exists(path)) throw DataError(fmt::format("{} is a file; a checkpoint is a folder", source), kWays);
  const auto colon = source.rfind(':');
  if (colon != std::string::npos && is_folder(files, source.substr(0, colon))) {
    return {find_named_checkpoint(files, checkpoints_of(files, source.substr(0, colon)), source.substr(colon + 1)), {}};
  }
  throw DataError(fmt::format("checkpoint {} does not exist", source), kWays);
}

}  // namespace

bool has_step_folders(FileSystem& files, const fs::path& folder) { return !list_steps(files, folder).empty(); }

std::optional<fs::path> find_newest(FileSystem& files, const fs::path& folder) {
  const auto steps = list_steps(files, folder);
  return steps.empty() ? std::nullopt : std::optional(steps.front().path);
}

std::optional<fs::path> find_newest_valid(FileSystem& files, const fs::path& folder) {
  const auto newest = look_for_newest(files, folder).whole;
  return newest ? std::optional(newest->path) : std::nullopt;
}

fs::path resolve_checkpoint(const std::string& source, FileSystem& files) { return find(source, files).path; }

Checkpoint load_checkpoint(const std::string& source, FileSystem& files) {
  Found found = find(source, files);
  VerifyReport report = found.report ? std::move(*found.report) : verify_checkpoint(files, found.path);
  if (!report.ok()) throw DataError(report.problem(), kTakeAnotherHint);
  return {files, std::move(found.path), std::move(report.manifest)};
}

Checkpoint read_checkpoint(const std::string& source, FileSystem& files) {
  const auto kept = std::make_shared<KeptFiles>();
  Found found = find(source, files, kept.get());
  VerifyReport report = found.report ? std::move(*found.report) : verify_and_keep(files, found.path, kept.get());
  if (!report.ok()) throw DataError(report.problem(), kTakeAnotherHint);
  return {files, std::move(found.path), std::move(report.manifest), kept};
}

std::vector<std::string> Checkpoint::names() const {
  std::set<std::string> names;
  for (const auto& [file, digest] : manifest_.files) {
    if (const auto file_name = parse_state_file_name(file)) names.insert(file_name->state);
  }
  return {names.begin(), names.end()};
}

bool Checkpoint::has(const std::string& name) const {
  const auto all = names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

namespace {

void warn_of_not_finite(FileSystem& files, const Checkpoint& checkpoint, const std::string& state,
                        const StateDict& entries) {
  const std::string values = not_finite_in({{state, &entries}}, FiniteRule());
  if (values.empty()) return;
  const auto good = find_newest_finite(files, checkpoint.path().parent_path(), checkpoint.step());
  log::warn("{} holds values that are not finite: {}; {}", checkpoint.path().string(), values,
            good ? fmt::format("the newest good one before it is {}", good->string())
                 : "there is no good checkpoint before it");
}

}  // namespace

StateDict Checkpoint::state(const std::string& name) const {
  StateDict entries = read_state(name);
  warn_of_not_finite(*files_, *this, name, entries);
  return entries;
}

StateDict Checkpoint::read_state(const std::string& name) const {
  std::vector<StatePart> parts;
  for (const auto& [file, digest] : manifest_.files) {
    const auto file_name = parse_state_file_name(file);
    if (!file_name || file_name->state != name) continue;
    SafetensorsMetadata metadata;
    const std::string path = (path_ / file).string();
    StateDict entries = state_from_bytes(read_verified(file, digest), path, &metadata);
    if (file_name->parts == 1) return entries;
    parts.push_back(part_from(std::move(entries), metadata, path));
  }
  if (!parts.empty()) return join_parts(parts);
  throw DataError(
      fmt::format("checkpoint {} has no state '{}'{}", path_.string(), name, text::did_you_mean(name, names())),
      "it has " + text::join(names()));
}

std::vector<std::string> Checkpoint::text_files() const {
  std::vector<std::string> names;
  for (const auto& [file, digest] : manifest_.files) {
    if (!file.ends_with(kStateSuffix)) names.push_back(file);
  }
  return names;
}

std::optional<std::string> Checkpoint::text(const std::string& file) const {
  const auto entry = manifest_.files.find(file);
  if (entry == manifest_.files.end() || file.ends_with(kStateSuffix)) return std::nullopt;
  return std::string(read_verified(file, entry->second).view());
}

FileBytes Checkpoint::read_verified(const std::string& file, const FileDigest& expected) const {
  if (kept_) return kept_->files.at(file);
  FileDigest found;
  FileBytes bytes = read_file(*files_, path_ / file, &found);
  if (const std::string problem = compare(found, expected); !problem.empty()) {
    throw DataError(fmt::format("{} {}", (path_ / file).string(), problem), kTakeAnotherHint);
  }
  return bytes;
}

}  // namespace lockstep
