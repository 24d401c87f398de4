// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/run_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "launch/failure.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/run_log.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kLargest = 1U << 20U;
constexpr std::size_t kLogEnd = 256U << 10U;
constexpr std::size_t kStackLines = 200;
constexpr std::array<std::string_view, 4> kRecipes = {"captcha", "detection", "segmentation", "captioning"};

struct Bytes {
  std::string text;
  bool is_end = false;  // the text is only the tail of a longer file
  std::int64_t time_ns = 0;
};

Bytes read_end(int fd, std::size_t most) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) throw IoError(std::generic_category().message(errno));
  const auto size = static_cast<std::size_t>(found.st_size);
  Bytes bytes{.is_end = size > most,
              .time_ns = static_cast<std::int64_t>(found.st_mtim.tv_sec) * 1'000'000'000 + found.st_mtim.tv_nsec};
  bytes.text.resize(std::min(size, most));
  auto at = static_cast<off_t>(size - bytes.text.size());
  std::size_t done = 0;
  while (done < bytes.text.size()) {
    const ssize_t count = ::pread(fd, bytes.text.data() + done, bytes.text.size() - done, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(std::generic_category().message(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
    at += count;
  }
  bytes.text.resize(done);
  return bytes;
}

std::optional<Bytes> read_file(const fs::path& file, std::size_t most, Notes& notes) {
  try {
    const UniqueFd fd = try_open_regular_file(file, O_RDONLY | O_NOFOLLOW);
    if (fd.valid()) return read_end(fd.get(), most);
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    notes.push_back(fmt::format("{} cannot be read ({})", file.string(), std::generic_category().message(errno)));
  } catch (const Error& problem) {
    notes.push_back(fmt::format("{} cannot be read ({})", file.string(), problem.message()));
  }
  return std::nullopt;
}

/// Reads one JSON object; adds a note if it cannot.
std::optional<Json> read_object(const fs::path& file, std::int64_t& time_ns, Notes& notes) {
  const auto bytes = read_file(file, kLargest, notes);
  if (!bytes) return std::nullopt;
  time_ns = bytes->time_ns;
  if (bytes->is_end) {
    notes.push_back(fmt::format("{} has more than {} and was not read", file.string(), text::bytes(kLargest)));
    return std::nullopt;
  }
  try {
    Json json = parse_json(bytes->text);
    if (json.is_object()) return json;
  } catch (const JsonError& error) {
    if (error.why() != JsonError::kNoJson) {
      notes.push_back(fmt::format("{} was not read: {}", file.string(), error.message()));
      return std::nullopt;
    }
  }
  notes.push_back(fmt::format("{} is torn: it is not a complete JSON object", file.string()));
  return std::nullopt;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? text::for_people(found->get<std::string>()) : "";
}

/// Returns a counter's value; 0 if it is not a number, or not a possible counter value.
double number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::int64_t whole_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

/// Returns the rank; -1 if unknown.
std::int64_t rank_at(const Json& json) { return json.contains("rank") ? whole_at(json, "rank") : -1; }

std::vector<std::string> stacks_of(const Json& json) {
  std::vector<std::string> lines;
  const auto found = json.find("stacks");
  if (found == json.end() || !found->is_array()) return lines;
  for (const Json& each : *found) {
    if (!each.is_string()) continue;
    std::string rest = text::for_people(each.get<std::string>());
    while (!rest.empty() && lines.size() < kStackLines) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      lines.push_back(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
  return lines;
}

/// Returns the step report in a summary, or in a line of log.jsonl.
std::optional<view::StepReport> report_in(const Json& json) {
  const auto found = json.find("report");
  if (found == json.end()) return std::nullopt;
  return view::parse_step_report(found->dump(-1, ' ', false, Json::error_handler_t::replace));
}

void take_line(const view::LogLine& line, view::RunLog& log) {
  const auto loss = line.json.find("loss");
  const bool is_progress = line.event == "step" || line.event == "epoch";
  if (is_progress || line.event == "stop" || line.event == "resume") log.step = line.step.value_or(0);
  if (is_progress && loss != line.json.end()) {
    log.loss = loss->is_number() ? std::optional(loss->get<double>()) : std::nullopt;
  }
  if (line.event == "report") log.step_report = report_in(line.json);
  log.stopped_by = line.event == "stop" ? text_at(line.json, "reason") : "";
}

bool has_manifest(const fs::path& folder) {
  std::error_code problem;
  return fs::is_regular_file(folder / "manifest.json", problem);
}

}  // namespace

std::map<int, fs::path> numbered_folders(const fs::path& parent, std::string_view prefix) {
  std::map<int, fs::path> found;
  std::error_code problem;
  fs::directory_iterator entries(parent, problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    int number = -1;
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + prefix.size(), end, number);
    if (read.ptr == end && read.ec == std::errc() && number >= 0) found[number] = entries->path();
  }
  return found;
}

void read_verdict(const fs::path& file, view::AttemptFacts& attempt, Notes& notes) {
  std::int64_t written_ns = 0;
  const auto json = read_object(file, written_ns, notes);
  if (!json) return;
  const std::string text = text::first_line(text_at(*json, "text"));
  if (text.empty()) return notes.push_back(fmt::format("{} is empty", file.string()));
  const std::int64_t time_ns = whole_at(*json, "time_ns");
  const bool was_asked = text_at(*json, "cause") == kAskedToLeave;
  attempt.verdict = FailureRecord{.kind = was_asked ? FailureKind::kNone : FailureKind::kFailed,
                                  .message = text,
                                  .hint = text_at(*json, "hint"),
                                  .rank = static_cast<int>(rank_at(*json)),
                                  .time_ns = time_ns > 0 ? time_ns : written_ns};
  attempt.then = text::first_line(text_at(*json, "then"));
  attempt.exit_code = static_cast<int>(whole_at(*json, "exit_code"));
  attempt.stacks = stacks_of(*json);
}

std::optional<view::RunSummary> read_summary(const fs::path& file, Notes& notes) {
  std::int64_t written_ns = 0;
  const auto json = read_object(file, written_ns, notes);
  if (!json) return std::nullopt;
  view::RunSummary summary{
      .steps = whole_at(*json, "steps"), .seconds = number_at(*json, "seconds"), .time_ns = written_ns};
  summary.step_report = report_in(*json);
  const auto metrics = json->find("metrics");
  if (metrics == json->end() || !metrics->is_object()) return summary;
  for (const auto& [name, value] : metrics->items()) {
    if (!value.is_number() && !value.is_null()) continue;
    const double number =
        value.is_null() ? std::nan("") : value.get<double>();  // JSON cannot represent non-finite numbers
    summary.metrics.emplace_back(text::printable_line(name), number);
  }
  return summary;
}

std::optional<view::RunLog> read_log(const fs::path& file, Notes& notes) {
  const auto bytes = read_file(file, kLogEnd, notes);
  if (!bytes || bytes->text.empty()) return std::nullopt;
  std::string_view rest = bytes->text;
  if (bytes->is_end) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  view::RunLog log{.time_ns = bytes->time_ns};
  bool has_any = false;
  int damaged = 0;
  view::each_line(rest, [&](std::string_view text) {
    const auto line = view::parse_log_line(text);
    damaged += line ? 0 : 1;
    has_any = has_any || line;
    if (line) take_line(*line, log);
  });
  if (damaged > 0) {
    notes.push_back(fmt::format("{} has {} that {} incomplete JSON: the process was killed while writing",
                                file.string(), damaged == 1 ? "a line" : fmt::format("{} lines", damaged),
                                damaged == 1 ? "is" : "are"));
  }
  return has_any ? std::optional(log) : std::nullopt;
}

std::string newest_checkpoint(const fs::path& run, Notes& notes) {
  const auto steps = numbered_folders(run / "checkpoints", "step-");
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (has_manifest(step->second)) return step->second.string();
    notes.push_back(fmt::format("{} has no manifest: it was not committed", step->second.string()));
  }
  return "";
}

std::vector<std::string> suspect_checkpoints(const fs::path& run) {
  std::vector<std::string> names;
  std::error_code problem;
  fs::directory_iterator at(run / "checkpoints", problem);
  for (; !problem && at != fs::directory_iterator(); at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".suspect")) names.push_back(text::printable(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool names_recipe(const fs::path& settings) {
  Notes ignored;
  const auto bytes = read_file(settings, kLargest, ignored);
  if (!bytes) return false;
  const std::string text = "\n" + bytes->text + "\n";
  return std::any_of(kRecipes.begin(), kRecipes.end(), [&](std::string_view recipe) {
    return text.find(fmt::format("\nrecipe: {}\n", recipe)) != std::string::npos;
  });
}

}  // namespace lockstep::launch
