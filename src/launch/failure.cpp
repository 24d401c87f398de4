// SPDX-License-Identifier: Apache-2.0
#include "launch/failure.h"

#include <fmt/format.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/nodes/addresses.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

std::string string_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Python's traceback ends with the line that matters; ours are short anyway.
std::string indented(const std::string& text, const char* first, const char* other) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += fmt::format("{}{}\n", out.empty() ? first : other, line);
  return out;
}

// The agent killed the rank while it still unwound after an error of its own.
bool was_killed_while_leaving(const WorkerEnd& end, const FailureRecord& cause) {
  return WIFSIGNALED(end.wait_status) && end.signal_sent != 0 && cause.rank == end.rank &&
         cause.kind != FailureKind::kDied && !cause.type.empty();
}

// An error type that is not Lockstep's is one of the program.
int exit_code_of_error(const FailureRecord& record) {
  try {
    rethrow(record);
  } catch (const Error& error) {
    const bool is_known = record.kind == FailureKind::kMismatch || record.type == error.type();
    return static_cast<int>(is_known ? error.code() : ExitCode::kProgram);
  }
}

}  // namespace

int exit_code_of(const WorkerEnd& end, const FailureRecord& cause) {
  return was_killed_while_leaving(end, cause) ? exit_code_of_error(cause) : exit_code(end.wait_status);
}

int exit_code(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

bool has_failed(const WorkerEnd& end) { return exit_code(end.wait_status) != 0; }

bool leaves_by_request(const WorkerEnd& end) {
  if (!WIFEXITED(end.wait_status)) return false;
  const int code = WEXITSTATUS(end.wait_status);
  return code == static_cast<int>(ExitCode::kTerminated) || code == static_cast<int>(ExitCode::kInterrupted);
}

bool is_consequence(const WorkerEnd& end) {
  return end.signal_sent != 0 || exit_code(end.wait_status) == static_cast<int>(ExitCode::kPeer) ||
         leaves_by_request(end);
}

std::optional<std::size_t> find_first(const std::vector<WorkerEnd>& ends, const std::optional<FailureRecord>& claim) {
  const auto find = [&](auto&& matches) -> std::optional<std::size_t> {
    const auto found =
        std::find_if(ends.begin(), ends.end(), [&](const auto& end) { return has_failed(end) && matches(end); });
    if (found == ends.end()) return std::nullopt;
    return static_cast<std::size_t>(found - ends.begin());
  };
  const auto is_claimed = [&](const WorkerEnd& end) { return claim && end.rank == claim->rank; };
  // A rank that failed by itself may still have been stopped while it unwound: then its own exit code tells.
  const auto failed_by_itself = [&](const WorkerEnd& end) {
    return is_claimed(end) && WIFEXITED(end.wait_status) &&
           exit_code(end.wait_status) != static_cast<int>(ExitCode::kPeer);
  };
  auto found = find(failed_by_itself);
  if (!found) found = find([&](const auto& end) { return is_claimed(end) && !is_consequence(end); });
  if (!found) found = find([](const auto& end) { return !is_consequence(end); });
  if (!found) found = find(is_claimed);
  if (!found) found = find([](const auto& end) { return end.signal_sent == 0; });
  if (!found) found = find([](const auto&) { return true; });
  return found;
}

std::string describe_status(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exit code {}", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  const char* name = ::sigabbrev_np(number);
  return fmt::format("killed by signal {} ({}{})", number, name == nullptr ? "" : "SIG",
                     name == nullptr ? "real-time" : name);
}

std::string describe_end(const WorkerEnd& end) {
  const bool is_by_agent =
      end.signal_sent != 0 && WIFSIGNALED(end.wait_status) && WTERMSIG(end.wait_status) == end.signal_sent;
  return is_by_agent ? "ended by its launcher" : describe_status(end.wait_status);
}

FailureRecord record_of_end(const WorkerEnd& end) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.kind = FailureKind::kDied,
          .message = end.why.empty() ? describe_end(end) : fmt::format("{}; {}", describe_end(end), end.why),
          .rank = end.rank,
          .host = host_name(),
          .time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
}

std::optional<WorkerError> read_error_file(const std::filesystem::path& file) {
  Json json;
  try {
    json = read_json_file(FileSystem::system(), file);
  } catch (const Error&) {  // none, or torn, or more than any error has
    return std::nullopt;
  }
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  const Json& message = json["message"];
  if (message.is_string()) return WorkerError{"", text::for_people(message.get<std::string>())};
  const Json extra = message.is_object() ? message.value("extraInfo", Json::object()) : Json::object();
  return WorkerError{string_at(extra, "type"), text::for_people(string_at(message, "message"))};
}

WorkerError error_of(const FailureRecord& claim) { return {claim.type, words_of(claim)}; }

namespace {

/// The rank's last words are the error that stands above them already, or its end: "error: WORDS" for "TYPE: WORDS".
bool only_repeats(const FailureReport& report) {
  if (!report.error) return false;
  const std::string said = text::for_people(text::join(report.last_lines, "\n"));
  const std::string known = report.error->message;
  const std::size_t type_end = known.find(": ");
  if (said.empty()) return false;
  if (said == "error: " + known || known.ends_with("\n" + said)) return true;  // a signal has no type
  return type_end != std::string::npos && said == "error" + known.substr(type_end);
}

/// The rank's own end. Where the agent killed it while it still left after an error, that error's type.
std::string headline_of(const FailureReport& report) {
  const bool is_own = describe_end(report.end) == describe_status(report.end.wait_status);
  if (is_own || !report.error) return describe_end(report.end);
  return report.error->type.empty() ? "an error" : report.error->type;
}

}  // namespace

std::string format_report(const FailureReport& report) {
  std::string out = fmt::format("lockstep: rank {} failed first: {} (pid {} on {})\n", report.end.rank,
                                headline_of(report), report.end.pid, report.host);
  if (!report.end.why.empty()) {
    out += indented(report.end.why, "  error   ", "  ");
  } else if (report.error) {
    out += indented(report.error->message, "  error   ", "          ");
  }
  if (only_repeats(report)) return out;
  if (!report.last_lines.empty()) {
    out += fmt::format("  last lines of {}\n", report.last_lines_of);
    for (const auto& line : report.last_lines) out += fmt::format("  | {}\n", text::for_people(line));
  } else {
    out += fmt::format("  it wrote nothing to {}\n", report.last_lines_of);
  }
  return out;
}

}  // namespace lockstep::launch
