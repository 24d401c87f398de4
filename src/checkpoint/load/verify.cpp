// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "checkpoint/folder/folder.h"
#include "checkpoint/folder/kept_files.h"
#include "checkpoint/formats/folder_names.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/part_file.h"
#include "checkpoint/formats/read_file.h"
#include "checkpoint/formats/safetensors_file.h"
#include "checkpoint/load/text_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

bool VerifyReport::ok() const { return problem().empty(); }

std::string VerifyReport::problem() const {
  const auto damaged = std::find_if(files.begin(), files.end(), [](const FileCheck& c) { return !c.problem.empty(); });
  return damaged == files.end() ? "" : damaged->problem;
}

namespace {

constexpr std::string_view kUnreadable = "is unchanged since it was written, but cannot be read: {}";

/// Returns what is wrong with one file of a checkpoint: its bytes have changed, or its text cannot be read.
std::string check_file(FileSystem& files, const fs::path& path, const FileDigest& expected, KeptFiles* kept) {
  const std::string name = path.filename().string();
  const bool is_text = is_read_text(name);
  // The size is compared before memory is allocated.
  if (const auto size = files.open(path)->size(); size != expected.bytes) return compare({.bytes = size}, expected);
  if (!is_text && kept == nullptr) return compare(hash_file(files, path), expected);
  if (is_text && expected.bytes > kMostTextBytes) {
    return fmt::format("has {}; the limit for text files is {}", text::bytes(expected.bytes),
                       text::bytes(kMostTextBytes));
  }
  FileDigest found;
  const FileBytes bytes = read_file(files, path, &found);
  if (kept != nullptr) kept->files[name] = bytes;
  if (std::string problem = compare(found, expected); !problem.empty() || !is_text) return problem;
  const std::string problem = text_problem(name, bytes.view());
  return problem.empty() ? "" : fmt::format(kUnreadable, problem);
}

/// Reads the headers of each state's files, and joins the parts without their data. Returns the faults by file name;
/// empty if everything can be read.
std::map<std::string, std::string> unreadable_states(FileSystem& files, const fs::path& step_folder,
                                                     const Manifest& manifest) {
  std::map<std::string, std::string> problems;
  std::map<std::string, std::vector<StatePart>> parts;
  for (const auto& [name, digest] : manifest.files) {
    const auto file_name = parse_state_file_name(name);
    if (!file_name) continue;
    try {
      const std::string path = (step_folder / name).string();
      SafetensorsMetadata metadata;
      StateDict entries = outline_of(*files.open(path), path, &metadata);
      if (file_name->parts == 1) continue;
      parts[file_name->state].push_back(part_from(std::move(entries), metadata, path));
      if (std::ssize(parts[file_name->state]) == file_name->parts) (void)join_parts(parts[file_name->state]);
    } catch (const DataError& error) {
      problems[name] = error.message();
    }
  }
  return problems;
}

}  // namespace

VerifyReport verify_checkpoint(FileSystem& files, const fs::path& step_folder) {
  return verify_and_keep(files, step_folder, nullptr);
}

VerifyReport checkpoint::verify_and_keep(FileSystem& files, const fs::path& step_folder, KeptFiles* kept) {
  if (!files.exists(step_folder)) throw DataError(fmt::format("checkpoint {} does not exist", step_folder.string()));
  VerifyReport report{step_folder, {}, {}};
  auto manifest = read_manifest(files, step_folder);
  report.files.push_back({kManifestName, manifest ? "" : manifest.error()});
  if (!manifest) return report;
  report.manifest = std::move(*manifest);
  const auto unreadable = unreadable_states(files, step_folder, report.manifest);
  for (const auto& [name, digest] : report.manifest.files) {
    const fs::path path = step_folder / name;
    std::string problem;
    try {
      const auto why = unreadable.find(name);
      problem = check_file(files, path, digest, why == unreadable.end() ? kept : nullptr);
      if (problem.empty() && why != unreadable.end()) problem = fmt::format(kUnreadable, why->second);
      if (!problem.empty()) problem = path.string() + " " + problem;
    } catch (const DataError& missing) {
      problem = missing.message();
    }
    report.files.push_back({name, problem});
  }
  return report;
}

std::string to_text(const VerifyReport& report) {
  if (!report.ok()) {
    std::string text;
    for (const FileCheck& check : report.files) {
      if (!check.problem.empty()) text += check.problem + "\n";
    }
    return text;
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, digest] : report.manifest.files) bytes += digest.bytes;
  return fmt::format("{}: whole ({} files, {})\n", report.path.string(), report.manifest.files.size(),
                     text::bytes(bytes));
}

}  // namespace lockstep
