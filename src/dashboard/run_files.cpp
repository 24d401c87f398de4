// SPDX-License-Identifier: Apache-2.0
#include "dashboard/run_files.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

#include "dashboard/live_ranks.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_below.h"
#include "lockstep/base/json.h"

namespace lockstep::dashboard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostBytes = 16 << 20;
constexpr std::size_t kMostSettings = 4 << 20;
constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostPictures = 60;
constexpr std::size_t kMostSeen = 20'000;  // entries of folders

double seconds_of(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration<double>(system).count();
}

/// Calls `use` with each entry, links left out: the folder's own files only.
template <class Use>
void each_entry(const fs::path& folder, Use&& use) {
  std::error_code problem;
  std::size_t seen = 0;
  fs::directory_iterator at(folder, problem);
  for (; !problem && at != fs::directory_iterator() && ++seen < kMostSeen; at.increment(problem)) use(*at);
}

bool is_picture(const fs::path& path) {
  constexpr std::array kEnds = {".png", ".jpg", ".jpeg"};
  const std::string end = path.extension().string();
  return std::find(kEnds.begin(), kEnds.end(), end) != kEnds.end();
}

Json checkpoint_of(const fs::path& folder) {
  const Json manifest = read_json(folder.parent_path(), folder.filename() / "manifest.json");
  if (!manifest.is_object()) return nullptr;
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  if (manifest.contains("files") && manifest["files"].is_object()) {
    for (const auto& [name, file] : manifest["files"].items()) {
      if (file.is_object() && file.contains("bytes") && file["bytes"].is_number_unsigned()) {
        bytes += file["bytes"].get<std::uint64_t>();
      }
      ++files;
    }
  }
  std::error_code problem;
  const auto time = fs::last_write_time(folder / "manifest.json", problem);
  return {{"name", folder.filename().string()},
          {"step", manifest.contains("step") ? manifest["step"] : Json()},
          {"bytes", bytes},
          {"files", files},
          {"time", problem ? 0 : seconds_of(time)},
          {"links", Json::array()},
          {"digest", manifest.contains("manifest_xxh3_128") ? manifest["manifest_xxh3_128"] : Json()}};
}

}  // namespace

Json read_json(const fs::path& folder, const fs::path& file) {
  const auto text = read_below(folder, file, kMostBytes);
  return text ? json_or_null(*text) : Json();
}

Json list_checkpoints(const fs::path& run) {
  std::map<std::string, Json> found;
  std::map<std::string, std::string> links;
  each_entry(run / "checkpoints", [&](const fs::directory_entry& entry) {
    std::error_code problem;
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink(problem)) {
      links[name] = fs::read_symlink(entry.path(), problem).filename().string();
    } else if (name.starts_with("step-") && entry.is_directory(problem)) {
      if (Json checkpoint = checkpoint_of(entry.path()); !checkpoint.is_null()) found[name] = std::move(checkpoint);
    } else if (const auto text = read_below(run / "checkpoints", name, kLongestName)) {  // a name for a step: "best"
      links[name] = text->substr(0, text->find_first_of(" \n"));
    }
  });
  for (const auto& [name, target] : links) {
    if (const auto step = found.find(target); step != found.end()) step->second["links"].push_back(name);
  }
  Json out = Json::array();
  for (auto at = found.rbegin(); at != found.rend(); ++at) out.push_back(std::move(at->second));
  return out;
}

Json list_settings(const fs::path& run) {
  Json out = Json::array();
  try {
    for (const char* name : {"config.resolved.yml", "config.yml"}) {
      const auto text = read_below(run, name, kMostSettings);
      if (!text) continue;
      const ConfigTree tree = ConfigTree::from_text(*text, name);
      for (const auto& [key, value] : tree.values()) {
        out.push_back({{"key", key}, {"value", value.yaml}, {"origin", value.origin}});
      }
      return out;
    }
  } catch (const Error&) {  // half written: the next look has it
  }
  return out;
}

std::vector<std::string> list_pictures(const fs::path& run) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  const auto add = [&](const fs::directory_entry& entry) {
    std::error_code problem;
    if (entry.is_symlink(problem) || !entry.is_regular_file(problem) || !is_picture(entry.path())) return;
    found.emplace_back(entry.last_write_time(problem), entry.path().lexically_relative(run).string());
  };
  each_entry(run, [&](const fs::directory_entry& entry) {
    add(entry);
    std::error_code problem;
    const std::string name = entry.path().filename().string();
    const bool is_looked_into = name != "logs" && name != "checkpoints" && !name.starts_with('.');
    if (is_looked_into && !entry.is_symlink(problem) && entry.is_directory(problem)) each_entry(entry.path(), add);
  });
  std::sort(found.rbegin(), found.rend());
  if (found.size() > kMostPictures) found.resize(kMostPictures);
  std::vector<std::string> names;
  for (auto& [time, name] : found) names.push_back(std::move(name));
  return names;
}

Json list_attempts(const fs::path& run) {
  Json out = Json::array();
  for (const auto& [number, folder] : numbered(logs_folder(run), "attempt_")) {
    Json ranks = Json::array();
    for (const auto& [rank, path] : numbered(folder, "rank-")) ranks.push_back(rank);
    out.push_back({{"attempt", number},
                   {"ranks", std::move(ranks)},
                   {"verdict", read_json(run, (folder / "verdict.json").lexically_relative(run))}});
  }
  return out;
}

}  // namespace lockstep::dashboard
