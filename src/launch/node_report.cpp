// SPDX-License-Identifier: Apache-2.0
#include "launch/node_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "launch/failure.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/view/terminal.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kShownLines = 20;

// The error's words without its type, which stands before them.
std::string without_type(const WorkerError& error) {
  const std::string type = error.type + ": ";
  return !error.type.empty() && error.message.starts_with(type) ? error.message.substr(type.size()) : error.message;
}

std::filesystem::path folder_of(const RoundFacts& facts, int rank) {
  return facts.logs.rank_folder(facts.attempt, rank);
}

// The rank's error file, or, where the disk was full, what it told the others.
std::optional<WorkerError> error_of_rank(const RoundFacts& facts, int rank) {
  auto error = read_error_file(folder_of(facts, rank) / "error.json");
  const auto& claim = facts.result.claim;
  const bool is_its_own = claim && claim->rank == rank && claim->kind != FailureKind::kDied;
  if (!error && is_its_own) error = error_of(*claim);
  return error;
}

// Every rank that sees a mismatch ends by it, and one of them told the others.
bool tells_same(const FailureRecord& claim, const WorkerEnd& end) {
  return claim.kind == FailureKind::kMismatch && exit_code(end.wait_status) == static_cast<int>(ExitCode::kUsage);
}

// What the rank told the others, or the agent for it, with the words of its error file.
FailureRecord cause_of(const RoundFacts& facts, const WorkerEnd& end) {
  const auto& claim = facts.result.claim;
  if (claim && tells_same(*claim, end)) return *claim;
  FailureRecord cause = claim && claim->rank == end.rank ? *claim : record_of_end(end);
  if (const auto error = error_of_rank(facts, end.rank)) {
    cause.type = error->type;
    cause.message = without_type(*error);
  }
  return cause;
}

// The words of the record are the headline. Of a mismatch it is known what two ranks called, and not which one is
// wrong.
bool is_headline(const FailureRecord& cause) {
  return cause.kind == FailureKind::kLost || cause.kind == FailureKind::kHang || cause.kind == FailureKind::kMismatch;
}

// An error file has the hint in the message.
std::string headline(const FailureRecord& cause) { return cause.message.substr(0, cause.message.find("\n  next")); }

// The end of the rank that the record blames; nullptr where it is of another node.
const WorkerEnd* end_of(const RoundFacts& facts, const FailureRecord& cause) {
  if (is_headline(cause)) return nullptr;
  const auto& ends = facts.result.ends;
  const auto found = std::find_if(ends.begin(), ends.end(),
                                  [&](const WorkerEnd& end) { return end.rank == cause.rank && has_failed(end); });
  return found == ends.end() ? nullptr : &*found;
}

void print_local(const RoundFacts& facts, const WorkerEnd& end) {
  const auto folder = folder_of(facts, end.rank);
  FailureReport report{.end = end,
                       .host = host_name(),
                       .error = error_of_rank(facts, end.rank),
                       .last_lines = last_lines(folder / "stderr.log", kShownLines),
                       .last_lines_of = (folder / "stderr.log").string()};
  // Some programs complain on stdout.
  if (const auto lines = last_lines(folder / "stdout.log", kShownLines); report.last_lines.empty() && !lines.empty()) {
    report.last_lines = lines;
    report.last_lines_of = (folder / "stdout.log").string();
  }
  const std::string text = format_report(report);
  const auto head = std::min(text.find('\n'), text.size());
  print_to(stderr, "{}{}", view::paint(text.substr(0, head), view::Color::kRed, view::use_color(STDERR_FILENO)),
           text.substr(head));
}

// A launcher that another one started leaves the cause where that one looks for it, as torchrun does.
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
  NodeEnd end{.round = facts.round.number, .is_success = result.is_success(), .interrupted_by = result.interrupted_by};
  if (result.start_error != 0) {
    end.code = static_cast<int>(ExitCode::kUsage);
    end.cause = FailureRecord{.type = "UsageError",
                              .message = start_error_text(facts),
                              .rank = facts.round.place.first_rank,
                              .host = host_name()};
    return end;
  }
  if (result.found) {
    end.code = static_cast<int>(result.found->code);
    end.cause = result.found->record;
    return end;
  }
  const auto first = find_first(result.ends, result.claim);
  if (end.is_success || !first) return end;
  const WorkerEnd& culprit = result.ends[*first];
  end.is_consequence = is_consequence(culprit);
  end.left_by_request = leaves_by_request(culprit) || (result.was_told_to_save && culprit.signal_sent != 0);
  end.cause = cause_of(facts, culprit);
  end.code = exit_code_of(culprit, *end.cause);
  return end;
}

std::string start_error_text(const RoundFacts& facts) {
  return fmt::format("cannot execute '{}' ({})", facts.path, std::generic_category().message(facts.result.start_error));
}

void warn_of_failure(const Order& order, const RoundFacts& facts) {
  if (!order.cause) return log::note("{}", order.reason);
  const FailureRecord& cause = *order.cause;
  if (is_headline(cause)) {
    log::warn("{}: {}", headline(cause), order.reason);
    return print_stacks(stacks_for(order, facts));
  }
  if (const WorkerEnd* end = end_of(facts, cause)) {
    const std::string said = error_of_rank(facts, end->rank) ? words_of(cause) : "no word from it";
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

std::vector<std::string> stacks_for(const Order& order, const RoundFacts& facts) {
  const auto& found = facts.result.found;
  const bool is_of_it = found && order.cause && order.cause->kind == FailureKind::kHang &&
                        order.cause->rank == found->record.rank && order.cause->host == found->record.host;
  return is_of_it ? found->stacks : std::vector<std::string>{};
}

void print_lost(const FailureRecord& lost, const std::vector<std::string>& stacks) {
  print_to(stderr, "lockstep: {}\n  next    {}\n", headline(lost), lost.hint);
  print_stacks(stacks);
}

}  // namespace lockstep::launch
