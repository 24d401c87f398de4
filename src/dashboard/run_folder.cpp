// SPDX-License-Identifier: Apache-2.0
#include "dashboard/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dashboard/live_ranks.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_below.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/view/run_diagnosis.h"

namespace lockstep::dashboard {
namespace {

// Reads the files of a run folder for the page. Any of them may be missing or torn.

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostBytes = 16 << 20;
constexpr std::size_t kMostSettings = 4 << 20;
constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostPictures = 60;
constexpr std::size_t kMostSeen = 20'000;  // entries to visit in folders

double seconds_of(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration<double>(system).count();
}

/// Calls `use` with each entry that is not a link.
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

/// Returns the JSON of a file below `folder`; null if it is missing, larger than 16 MB, not JSON, or reached through a
/// link.
Json read_json(const fs::path& folder, const fs::path& file) {
  const auto text = read_below(folder, file, kMostBytes);
  return text ? json_or_null(*text) : Json();
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

/// Returns [{"name", "step", "bytes", "files", "digest", "time", "links"}], newest first; "digest" is that of the
/// manifest.
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

/// Returns [{"key", "value", "origin"}] of config.yml.
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
  } catch (const Error&) {  // it is being written: the next call reads it
  }
  return out;
}

/// Returns the images in the run folder and its subfolders by relative name, newest first, at most 60.
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

/// Returns [{"attempt", "ranks": [0, 1], "verdict": {...}}], oldest first.
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

constexpr auto kFresh = std::chrono::milliseconds(100);
constexpr std::int64_t kTail = 64 << 10;
constexpr std::size_t kLargestPicture = 32 << 20;
constexpr std::size_t kLargestNetwork = 1 << 30;
constexpr const char* kNetworkFile = "model.onnx";

/// Returns the time at which `lockstep checkpoint export` wrote the folder's network; null if there is no network.
Json time_of_network(const fs::path& run) {
  struct stat status {};
  const UniqueFd file = open_below(run, kNetworkFile);
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return nullptr;
  return status.st_mtim.tv_sec;
}

std::string name_of(const fs::path& folder) {
  const auto path = fs::absolute(folder).lexically_normal();
  return text::printable(path.has_filename() ? path.filename().string() : path.parent_path().filename().string());
}

Json diagnosis_of(const fs::path& folder) {
  try {
    const view::RunFacts facts = read_run(folder.string());
    return parse_json(view::diagnosis_json(facts, view::diagnose(facts)));
  } catch (const Error&) {
    return {{"state", "empty"}, {"text", "the run has not begun"}, {"details", Json::array()}, {"next", Json::array()}};
  }
}

}  // namespace

RunFolder::RunFolder(fs::path folder)
    : folder_(std::move(folder)), name_(name_of(folder_)), log_(folder_), digests_(folder_), ranks_(folder_) {}

Json RunFolder::live() {
  const std::scoped_lock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now < live_until_) return live_;
  log_.update();
  live_ = ranks_.state();
  live_["log"] = log_.progress();
  live_until_ = now + kFresh;
  return live_;
}

Json RunFolder::state() {
  Json out = {{"name", name_},
              {"folder", folder_.string()},
              {"diagnosis", diagnosis_of(folder_)},
              {"attempts", list_attempts(folder_)},
              {"checkpoints", list_checkpoints(folder_)},
              {"settings", list_settings(folder_)},
              {"summary", read_json(folder_, "summary.json")},
              {"pictures", list_pictures(folder_)},
              {"network", time_of_network(folder_)}};
  const std::scoped_lock lock(mutex_);
  log_.update();
  out["curves"] = log_.names();
  out["events"] = log_.events();
  out["evaluation"] = log_.evaluation();
  out["report"] = log_.report();
  out["proved"] = log_.proved();
  digests_.update();
  out["digests"] = digests_.state();
  return out;
}

Json RunFolder::compare(RunFolder& other) {
  if (&other == this) return nullptr;
  const std::scoped_lock lock(mutex_, other.mutex_);
  digests_.update();
  other.digests_.update();
  const auto* const a = digests_.chain();
  const auto* const b = other.digests_.chain();
  return a == nullptr || b == nullptr ? Json() : compare_chains(*a, *b);
}

Json RunFolder::curve(const std::string& name, const CurveWindow& window, double smooth) {
  const std::scoped_lock lock(mutex_);
  return log_.curve(name, window, smooth);
}

Json RunFolder::timeline(double seconds) {
  const std::scoped_lock lock(mutex_);
  return ranks_.timeline(seconds);
}

Json RunFolder::log_part(const LogPart& part) const {
  Json out = {{"text", ""}, {"next", 0}, {"size", 0}};
  if (part.stream != "stderr" && part.stream != "stdout") return out;
  const fs::path path =
      fs::path(fmt::format("attempt_{}", part.attempt)) / fmt::format("rank-{}", part.rank) / (part.stream + ".log");
  const fs::path logs = logs_folder(folder_) == folder_ ? path : "logs" / path;
  const UniqueFd file = open_below(folder_, logs);
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return out;
  const auto size = static_cast<std::int64_t>(status.st_size);
  std::int64_t from = part.from < 0 || part.from > size ? size - kTail : part.from;
  from = std::max<std::int64_t>(std::max(from, size - kTail), 0);
  std::string text(static_cast<std::size_t>(size - from), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  out["next"] = from + static_cast<std::int64_t>(text.size());
  out["size"] = size;
  out["from"] = from;
  out["text"] = std::move(text);
  return out;
}

std::optional<std::string> RunFolder::picture(const std::string& name) const {
  const auto names = list_pictures(folder_);
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return read_below(folder_, name, kLargestPicture);
}

std::optional<std::string> RunFolder::network() const { return read_below(folder_, kNetworkFile, kLargestNetwork); }

std::optional<fs::path> RunFolder::checkpoint(const std::string& name) const {
  for (const auto& each : list_checkpoints(folder_)) {
    if (each["name"] == name) return folder_ / "checkpoints" / name;
  }
  return std::nullopt;
}

}  // namespace lockstep::dashboard
