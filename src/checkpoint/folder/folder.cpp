// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/manifest_json.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostNameBytes = 4096;

std::vector<StepFolder> list_steps(FileSystem& files, const fs::path& folder) {
  std::vector<StepFolder> steps;
  for (const std::string& name : files.list(folder)) {
    if (const auto parsed = parse_step_name(name)) steps.push_back({folder / name, *parsed});
  }
  std::sort(steps.begin(), steps.end(), [](const StepFolder& a, const StepFolder& b) {
    const bool aside_a = a.name.bad != 0;
    const bool aside_b = b.name.bad != 0;
    return std::tie(aside_a, b.name.step, b.name.bad) < std::tie(aside_b, a.name.step, a.name.bad);
  });
  return steps;
}

Result<Manifest> read_manifest(FileSystem& files, const fs::path& step_folder) {
  const fs::path path = step_folder / kManifestName;
  try {
    auto manifest = manifest_from_json(files.read(path, kMaxManifestBytes));
    if (manifest) return manifest;
    return Failure{fmt::format("{} is torn: {}", path.string(), manifest.error())};
  } catch (const DataError& error) {
    return Failure{error.message()};
  }
}

std::string compare(const FileDigest& found, const FileDigest& expected) {
  if (found.bytes != expected.bytes) {
    return fmt::format("is torn: {} bytes, the manifest says {}", found.bytes, expected.bytes);
  }
  if (found == expected) return "";
  return fmt::format("is torn: XXH3-128 {}, the manifest says {}", found.xxh3_128, expected.xxh3_128);
}

Result<fs::path> follow_name(FileSystem& files, const fs::path& folder, const std::string& name) {
  std::string content;
  try {
    content = files.read(folder / name, kMostNameBytes);
  } catch (const DataError& error) {
    return Failure{error.message()};
  }
  // "step-00001200 <hash of its manifest>\n": the hash finds the content even after the folder was set aside.
  const auto space = content.find(' ');
  const auto step = parse_step_name(content.substr(0, space));
  if (space == std::string::npos || !step || step->bad != 0 || content.back() != '\n') {
    return Failure{fmt::format("{} is torn: it does not name a step folder", (folder / name).string())};
  }
  const std::string hash = content.substr(space + 1, content.size() - space - 2);
  for (const StepFolder& candidate : list_steps(files, folder)) {
    const fs::path manifest = candidate.path / kManifestName;
    if (candidate.name.step != step->step || !files.exists(manifest)) continue;
    if (digest_of(files.read(manifest, kMaxManifestBytes)).xxh3_128 == hash) return candidate.path;
  }
  return Failure{
      fmt::format("{} names {}, which is gone or has changed", (folder / name).string(), step_name(step->step))};
}

}  // namespace lockstep::checkpoint
