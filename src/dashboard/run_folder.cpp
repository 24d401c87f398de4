// SPDX-License-Identifier: Apache-2.0
#include "dashboard/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "dashboard/run_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_below.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/view/run_diagnosis.h"

namespace lockstep::dashboard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr auto kFresh = std::chrono::milliseconds(100);
constexpr std::int64_t kTail = 64 << 10;
constexpr std::size_t kLargestPicture = 32 << 20;

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
    : folder_(std::move(folder)), name_(name_of(folder_)), log_(folder_), ranks_(folder_) {}

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
              {"pictures", list_pictures(folder_)}};
  const std::scoped_lock lock(mutex_);
  log_.update();
  out["curves"] = log_.names();
  out["events"] = log_.events();
  out["evaluation"] = log_.evaluation();
  out["report"] = log_.report();
  return out;
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

std::optional<fs::path> RunFolder::checkpoint(const std::string& name) const {
  for (const auto& each : list_checkpoints(folder_)) {
    if (each["name"] == name) return folder_ / "checkpoints" / name;
  }
  return std::nullopt;
}

}  // namespace lockstep::dashboard
