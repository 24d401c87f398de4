// SPDX-License-Identifier: Apache-2.0
#include "launch/failure.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "launch/nodes/addresses.h"
#include "launch/nodes/blame.h"
#include "launch/output/log_folder.h"
#include "launch/worker_group.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/view/terminal.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

std::string string_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Indents an error's text. No line is dropped, since the most important line of a Python traceback is the last.
std::string indented(const std::string& text, const char* first, const char* other) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += fmt::format("{}{}\n", out.empty() ? first : other, line);
  return out;
}

// Returns true if the agent killed the rank while it was unwinding after its own error.
bool was_killed_while_leaving(const WorkerEnd& end, const FailureRecord& cause) {
  return WIFSIGNALED(end.wait_status) && end.signal_sent != 0 && cause.rank == end.rank &&
         cause.kind != FailureKind::kDied && !cause.type.empty();
}

}  // namespace

int exit_code_of(const WorkerEnd& end, const FailureRecord& cause) {
  return was_killed_while_leaving(end, cause) ? exit_code_of(cause) : exit_code(end.wait_status);
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

std::optional<WorkerEnd> first_of(const std::vector<WorkerEnd>& ends, const std::optional<FailureRecord>& claim) {
  std::vector<WorkerEnd> failed;
  std::vector<Suspect> suspects;
  for (const WorkerEnd& end : ends) {
    if (!has_failed(end)) continue;
    failed.push_back(end);
    suspects.push_back(
        {.rank = end.rank,
         .has_own_code = WIFEXITED(end.wait_status) && exit_code(end.wait_status) != static_cast<int>(ExitCode::kPeer),
         .is_consequence = is_consequence(end),
         .was_stopped = end.signal_sent != 0});
  }
  const auto found = blame(suspects, claim);
  return found ? std::optional(failed[*found]) : std::nullopt;
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
  return {.kind = FailureKind::kDied,
          .message = end.why.empty() ? describe_end(end) : fmt::format("{}; {}", describe_end(end), end.why),
          .rank = end.rank,
          .host = host_name(),
          .time_ns = wall_time_ns()};
}

std::optional<FailureRecord> read_error_file(const std::filesystem::path& file) {
  Json json;
  try {
    json = read_json_file(FileSystem::system(), file);
  } catch (const Error&) {  // the file is missing, torn, or larger than any error
    return std::nullopt;
  }
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  const Json& message = json["message"];
  if (message.is_string()) return FailureRecord{.message = text::for_people(message.get<std::string>())};
  const Json extra = message.is_object() ? message.value("extraInfo", Json::object()) : Json::object();
  FailureRecord error{.type = string_at(extra, "type"), .message = text::for_people(string_at(message, "message"))};
  if (extra.contains("erred") && extra["erred"].is_number_integer()) error.erred = extra["erred"].get<int>();
  if (const std::string type = error.type + ": "; error.message.starts_with(type)) error.message.erase(0, type.size());
  return error;
}

namespace {

// Returns true if the rank's last output is just the known error, or the end of it: "error: WORDS" for "TYPE: WORDS".
bool only_repeats(const std::string& known, const std::vector<std::string>& last_lines) {
  const std::string said = text::for_people(text::join(last_lines, "\n"));
  const std::size_t type_end = known.find(": ");
  if (said.empty() || known.empty()) return false;
  if (said == "error: " + known || known.ends_with("\n" + said)) return true;  // signals have no type
  return type_end != std::string::npos && said == "error" + known.substr(type_end);
}

// Returns how the rank ended, or the error's type if the agent killed the rank while it was exiting after an error.
std::string headline_of(const WorkerEnd& end, const FailureRecord& said) {
  const bool is_own = describe_end(end) == describe_status(end.wait_status);
  if (is_own || said.message.empty()) return describe_end(end);
  return said.type.empty() ? "an error" : said.type;
}

}  // namespace

std::string format_report(const WorkerEnd& end, const FailureRecord& said, const std::vector<std::string>& last_lines,
                          const std::string& lines_of) {
  const std::string error = said.message.empty() ? "" : words_of(said);
  std::string out = fmt::format("lockstep: rank {} failed first: {} (pid {} on {})\n", end.rank, headline_of(end, said),
                                end.pid, said.host);
  out += end.why.empty() ? indented(error, "  error   ", "          ") : indented(end.why, "  error   ", "  ");
  if (only_repeats(error, last_lines)) return out;
  out += fmt::format("  {} {}\n", last_lines.empty() ? "it wrote nothing to" : "last lines of", lines_of);
  for (const auto& line : last_lines) out += fmt::format("  | {}\n", text::for_people(line));
  return out;
}

namespace {

constexpr std::size_t kShownLines = 20;

std::filesystem::path folder_of(const RoundFacts& facts, int rank) {
  return facts.logs.rank_folder(facts.attempt, rank);
}

// Reads the rank's error file. If the disk was full, uses the error that the rank published instead.
std::optional<FailureRecord> error_of_rank(const RoundFacts& facts, int rank) {
  auto error = read_error_file(folder_of(facts, rank) / "error.json");
  const auto& claim = facts.result.claim;
  const bool is_its_own = claim && claim->rank == rank && claim->kind != FailureKind::kDied;
  if (!error && is_its_own) error = claim;
  return error;
}

// Returns true if the rank ended because of a mismatch that another rank has published.
bool ended_by(const FailureRecord& claim, const WorkerEnd& end) {
  return claim.kind == FailureKind::kMismatch && exit_code(end.wait_status) == static_cast<int>(ExitCode::kUsage);
}

// Combines the published cause with the text from the rank's error file.
FailureRecord cause_of(const RoundFacts& facts, const WorkerEnd& end) {
  const auto& claim = facts.result.claim;
  if (claim && ended_by(*claim, end)) return *claim;
  FailureRecord cause = claim && claim->rank == end.rank ? *claim : record_of_end(end);
  if (const auto error = error_of_rank(facts, end.rank)) {
    cause.type = error->type;
    cause.message = error->message;
    cause.erred = error->erred;
  }
  return cause;
}

// Returns true if the record's text is the headline. A mismatch names two ranks' calls, but not which is wrong.
bool is_headline(const FailureRecord& cause) {
  return cause.kind == FailureKind::kLost || cause.kind == FailureKind::kHang || cause.kind == FailureKind::kMismatch;
}

// Returns the message without its hint, which an error file includes.
std::string headline(const FailureRecord& cause) { return cause.message.substr(0, cause.message.find("\n  next")); }

// Returns the end of the rank that the record blames; nullptr if the rank belongs to another node.
const WorkerEnd* end_of(const RoundFacts& facts, const FailureRecord& cause) {
  if (is_headline(cause)) return nullptr;
  const auto& ends = facts.result.ends;
  const auto found = std::find_if(ends.begin(), ends.end(),
                                  [&](const WorkerEnd& end) { return end.rank == cause.rank && has_failed(end); });
  return found == ends.end() ? nullptr : &*found;
}

void print_local(const RoundFacts& facts, const WorkerEnd& end) {
  const auto folder = folder_of(facts, end.rank);
  FailureRecord said = error_of_rank(facts, end.rank).value_or(FailureRecord{});
  said.host = host_name();
  // Some programs write errors to stdout.
  std::filesystem::path file = folder / "stderr.log";
  if (last_lines(file, 1).empty() && !last_lines(folder / "stdout.log", 1).empty()) file = folder / "stdout.log";
  const std::string text = format_report(end, said, last_lines(file, kShownLines), file.string());
  const auto head = std::min(text.find('\n'), text.size());
  print_to(stderr, "{}{}", view::paint(text.substr(0, head), view::Color::kRed, view::use_color(STDERR_FILENO)),
           text.substr(head));
}

// If another launcher started this one, copies the cause to the file that the other launcher reads, as torchrun does.
void copy_error_file(const RoundFacts& facts, const WorkerEnd& end) {
  const auto target = env::get("TORCHELASTIC_ERROR_FILE");
  std::error_code problem;
  if (!target) return;
  std::filesystem::copy_file(folder_of(facts, end.rank) / "error.json", *target,
                             std::filesystem::copy_options::overwrite_existing, problem);
}

void print_stacks(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    print_to(stderr, "  {:<8}{}\n", &line == &lines.front() ? "stack" : "", text::printable_line(line));
  }
}

}  // namespace

NodeEnd end_of_round(const RoundFacts& facts) {
  const WorkerGroupResult& result = facts.result;
  NodeEnd end{.round = facts.round.number,
              .is_success = result.is_success(),
              .place = result.place,
              .interrupted_by = result.interrupted_by};
  if (result.start_error != 0) {
    end.code = static_cast<int>(ExitCode::kUsage);
    end.cause = FailureRecord{.type = "UsageError",
                              .message = start_error_text(facts),
                              .rank = facts.round.place.first_rank,
                              .host = host_name()};
    return end;
  }
  if (result.found) {
    end.code = exit_code_of(*result.found);
    end.cause = result.found;
    return end;
  }
  const auto culprit = first_of(result.ends, result.claim);
  if (end.is_success || !culprit) return end;
  end.has_lost_store = result.lost.has_value();
  end.is_consequence = is_consequence(*culprit);
  end.cause = cause_of(facts, *culprit);
  // A rank may fail with its own error while it saves on request.
  end.left_by_request = leaves_by_request(*culprit) ||
                        (result.was_asked_to_save && culprit->signal_sent != 0 && !would_recur(*end.cause));
  end.code = exit_code_of(*culprit, *end.cause);
  return end;
}

std::string start_error_text(const RoundFacts& facts) {
  return fmt::format("cannot execute '{}' ({})", facts.path, std::generic_category().message(facts.result.start_error));
}

std::vector<std::string> stacks_for(const Order& order, const RoundFacts& facts) {
  const auto& found = facts.result.found;
  const bool is_of_it = found && order.cause && order.cause->kind == FailureKind::kHang &&
                        order.cause->rank == found->rank && order.cause->host == found->host;
  return is_of_it ? facts.result.stacks : std::vector<std::string>{};
}

void warn_of_failure(const Order& order, const RoundFacts& facts) {
  if (!order.cause) return log::note("{}", order.reason);
  const FailureRecord& cause = *order.cause;
  if (is_headline(cause)) {
    log::warn("{}: {}", headline(cause), order.reason);
    return print_stacks(stacks_for(order, facts));
  }
  if (const WorkerEnd* end = end_of(facts, cause)) {
    const std::string said = error_of_rank(facts, end->rank) ? words_of(cause) : "it reported nothing";
    log::warn("rank {} failed ({}; {}): {}, logs in {}", end->rank, describe_end(*end), text::first_line(said),
              order.reason, folder_of(facts, end->rank).string());
  } else {
    log::warn("rank {} on {} failed ({}): {}", cause.rank, cause.host, text::first_line(words_of(cause)), order.reason);
  }
}

bool is_of_other_node(const Order& order, const RoundFacts& facts) {
  return order.cause && !is_headline(*order.cause) && end_of(facts, *order.cause) == nullptr;
}

bool is_error_of_start(const Order& order, const RoundFacts& facts) {
  const bool is_of_input =
      order.code == static_cast<int>(ExitCode::kUsage) || order.code == static_cast<int>(ExitCode::kData);
  return is_of_input && order.cause && !order.cause->type.empty() && !is_headline(*order.cause) &&
         facts.round.place.nodes == 1 && facts.result.last_step < 0;
}

void print_error_of_start(const Order& order, const RoundFacts& facts) {
  const FailureRecord& cause = *order.cause;
  const auto lines = last_lines(folder_of(facts, 0) / "stderr.log", kShownLines);
  const std::string said = text::for_people(text::join(lines, "\n"));
  if (said.find("error: " + text::first_line(cause.message)) == std::string::npos) {
    const bool has_hint = cause.hint.empty() || cause.message.find("\n  next") != std::string::npos;
    log::error("{}{}", cause.message, has_hint ? "" : "\n  next  " + cause.hint);
  }
  if (const WorkerEnd* end = end_of(facts, cause)) copy_error_file(facts, *end);
}

void print_blame(const Order& order, const RoundFacts& facts, bool with_reason) {
  if (order.is_graceful) {
    print_to(stderr, "lockstep: {} (exit code {})\n", order.reason, order.code);
  } else if (!order.cause) {
    print_to(stderr, "lockstep: {}\n", order.reason);
  } else if (is_headline(*order.cause)) {
    print_lost(*order.cause, stacks_for(order, facts));
  } else if (const WorkerEnd* end = end_of(facts, *order.cause)) {
    if (with_reason) log::note("{}", order.reason);
    copy_error_file(facts, *end);
    print_local(facts, *end);
  } else {
    print_to(stderr, "lockstep: rank {} on {} failed first: {}\n  its output is on that node\n", order.cause->rank,
             order.cause->host, words_of(*order.cause));
  }
}

void print_lost(const FailureRecord& lost, const std::vector<std::string>& stacks) {
  print_to(stderr, "lockstep: {}\n  next    {}\n", headline(lost), lost.hint);
  print_stacks(stacks);
}

namespace {

std::string verdict_of(const Order& order, const FailureRecord& cause) {
  if (order.is_graceful) return order.reason;
  if (cause.kind == FailureKind::kLost || cause.kind == FailureKind::kHang) return cause.message;
  return fmt::format("rank {} on {} failed first: {}", cause.rank, cause.host, text::first_line(words_of(cause)));
}

std::string name_of_cause(const FailureRecord& record) {
  if (record.kind != FailureKind::kHang) return name_of(record.kind);
  return record.type == "PeerError" ? "left" : record.type == "UsageError" ? "mismatch" : "hang";
}

}  // namespace

std::string verdict_json(const Order& order, const std::vector<std::string>& stacks) {
  const FailureRecord cause = order.cause.value_or(FailureRecord{});
  nlohmann::ordered_json json{{"schema", 1},
                              {"text", verdict_of(order, cause)},
                              {"hint", cause.hint},
                              {"cause", order.is_graceful ? kAskedToLeave : name_of_cause(cause)},
                              {"rank", cause.rank},
                              {"host", cause.host},
                              {"exit_code", order.kind == Order::Kind::kEnd ? order.code : 0},
                              {"then", order.is_graceful ? "" : order.reason},
                              {"time_ns", wall_time_ns()}};
  if (!stacks.empty()) json["stacks"] = stacks;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_verdict(const Order& order, const std::vector<std::string>& stacks,
                   const std::filesystem::path& attempt) noexcept {
  if (!order.cause && !order.is_graceful) return;
  try {
    std::ofstream(attempt / "verdict.json", std::ios::binary) << verdict_json(order, stacks);
  } catch (const std::exception&) {
    // The console has the same text.
  }
}

}  // namespace lockstep::launch
