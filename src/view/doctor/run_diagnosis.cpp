// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/run_diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/watch.h"

namespace lockstep::view {
namespace {

constexpr std::size_t kShownAttempts = 5;
constexpr std::size_t kShownErrors = 8;
// Ranks wait for each other in every step. Only a wait of at least this length is reported.
constexpr std::int64_t kLongWait = 3'000'000'000;

double seconds(std::int64_t ns) { return static_cast<double>(std::max<std::int64_t>(ns, 0)) * 1e-9; }

const AttemptFacts* newest(const RunFacts& facts) { return facts.attempts.empty() ? nullptr : &facts.attempts.back(); }

/// Returns "rank 1 ... (exit code 137)", or just the text if it already has the code.
std::string with_code(const AttemptFacts& attempt) {
  const std::string code = fmt::format("exit code {}", attempt.exit_code);
  const std::string& text = attempt.verdict->message;
  return text.ends_with(code) ? text : fmt::format("{} ({})", text, code);
}

/// Returns true if the ranks stopped on request, without a failure.
bool stopped_on_request(const AttemptFacts* attempt) {
  return attempt != nullptr && attempt->verdict && attempt->verdict->kind == FailureKind::kNone;
}

std::string end_of(const AttemptFacts& attempt) {
  if (!attempt.verdict) return "ended without a verdict";
  return attempt.exit_code == 0 ? attempt.verdict->message + " (started again)" : with_code(attempt);
}

std::vector<std::string> earlier_of(const RunFacts& facts) {
  std::vector<std::string> lines;
  const std::size_t count = facts.attempts.empty() ? 0 : facts.attempts.size() - 1;
  const std::size_t first = count > kShownAttempts ? count - kShownAttempts : 0;
  if (first > 0) lines.push_back(fmt::format("{} before", text::counted(static_cast<std::int64_t>(first), "attempt")));
  for (std::size_t i = first; i < count; ++i) {
    lines.push_back(fmt::format("attempt {}: {}", facts.attempts[i].number, end_of(facts.attempts[i])));
  }
  return lines;
}

std::string log_text(const RunLog& log, std::int64_t now_ns) {
  const std::string loss = log.loss ? fmt::format(", loss {:.4g}", *log.loss) : "";
  return fmt::format("step {}{}, logged {} ago", text::thousands(log.step), loss,
                     text::duration(seconds(now_ns - log.time_ns)));
}

std::string resume_command(const RunFacts& facts) {
  const AttemptFacts* attempt = newest(facts);
  const std::string folder = text::shell_word(facts.path);
  if (!facts.is_recipe) {
    return facts.has_settings ? fmt::format("start the program again with --run-dir {} --resume auto", folder) : "";
  }
  const int ranks = attempt == nullptr || facts.is_launched ? 0 : attempt->ranks;
  return fmt::format("lockstep train {}{} --run-dir {} --resume auto", text::shell_word(facts.path + "/config.yml"),
                     ranks == 0 ? "" : fmt::format(" --nproc-per-node {}", ranks), folder);
}

void offer_resume(const RunFacts& facts, RunDiagnosis& diagnosis) {
  if (!facts.checkpoint.empty()) diagnosis.details.push_back(fmt::format("checkpoint  {}", facts.checkpoint));
  const std::string command = resume_command(facts);
  if (command.empty()) return;
  if (facts.checkpoint.empty()) diagnosis.details.emplace_back("checkpoint  none: the run starts over at step 0");
  diagnosis.next.push_back(command);
}

bool records(const RunFacts& facts) {
  return std::any_of(facts.ranks.begin(), facts.ranks.end(), [](const auto& rank) { return rank.ring.has_value(); });
}

/// Returns the wait to report. If a rank is stopped, even a short wait is reported.
std::optional<flight::Stall> stall_of(const RunFacts& facts) {
  auto stall = flight::longest_stall({.ranks = facts.ranks, .now_ns = facts.monotonic_ns});
  if (!stall) return std::nullopt;
  const bool is_held = std::any_of(facts.ranks.begin(), facts.ranks.end(), flight::is_stopped);
  if (!is_held && facts.monotonic_ns - stall->since_ns < kLongWait) return std::nullopt;
  return stall;
}

std::string steps_of(const RunFacts& facts) {
  std::int64_t low = -1;
  std::int64_t high = -1;
  for (const flight::RankFacts& rank : facts.ranks) {
    if (!rank.ring || rank.ring->step < 0) continue;
    low = low < 0 ? rank.ring->step : std::min(low, rank.ring->step);
    high = std::max(high, rank.ring->step);
  }
  if (low < 0) return "";
  return low == high ? fmt::format(", step {}", text::thousands(low))
                     : fmt::format(", steps {} to {}", text::thousands(low), text::thousands(high));
}

/// Returns the time of the last event of any rank here; 0 if unknown.
std::int64_t last_event_of(const RunFacts& facts) {
  std::int64_t last = 0;
  for (const flight::RankFacts& rank : facts.ranks) last = std::max(last, rank.ring ? rank.ring->last_event_ns : 0);
  return last;
}

std::string last_sign_of(const RunFacts& facts) {
  const std::int64_t last = last_event_of(facts);
  if (last == 0) return "";
  return fmt::format(", the last event {} ago", text::duration(seconds(facts.monotonic_ns - last)));
}

/// Returns "no progress for 8.0 s: rank 2 is stopped (T)"; empty if no rank is stopped.
std::string stopped_text(const RunFacts& facts, const std::optional<flight::Stall>& stall) {
  std::vector<std::string> ranks;
  char state = 'T';
  for (const flight::RankFacts& rank : facts.ranks) {
    if (!flight::is_stopped(rank)) continue;
    ranks.push_back(std::to_string(rank.rank));
    state = rank.process.state;
  }
  if (ranks.empty()) return "";
  // A rank that stops waiting also records an event, so the start of a stall comes first.
  const std::int64_t last = stall ? stall->since_ns : last_event_of(facts);
  const std::string since = last == 0 ? "" : " for " + text::duration(seconds(facts.monotonic_ns - last));
  return fmt::format("no progress{}: {} {} {} stopped ({})", since, ranks.size() == 1 ? "rank" : "ranks",
                     text::join(ranks), ranks.size() == 1 ? "is" : "are", state);
}

void add_place(const flight::RankFacts& rank, std::int64_t now_ns, std::string& line) {
  if (!rank.ring) {
    line += ": it records nothing";
    return;
  }
  if (rank.ring->step >= 0) line += fmt::format(", step {}", rank.ring->step);
  if (!rank.ring->sections.empty()) {
    const flight::Section& section = rank.ring->sections.back();
    line += fmt::format(", in {} for {:.1f} s", section.name, seconds(now_ns - section.since_ns));
  }
  for (const flight::Lane& lane : rank.ring->lanes) {
    if (!lane.is_running()) continue;
    line += fmt::format(", waiting in {} {} for {:.1f} s", lane.name, lane.started, seconds(now_ns - lane.started_ns));
  }
  if (flight::is_stopped(rank)) line += ", stopped";
}

void add_ranks(const RunFacts& facts, RunDiagnosis& diagnosis) {
  for (const flight::RankFacts& rank : facts.ranks) {
    std::string line = fmt::format("rank {}", rank.rank);
    if (rank.ring) line += fmt::format(" (pid {} on {})", rank.ring->pid, rank.ring->host);
    add_place(rank, facts.monotonic_ns, line);
    diagnosis.details.push_back(std::move(line));
  }
}

/// Describes the wait of the ranks, and when it ends.
std::string waiting_text(const RunFacts& facts, const flight::Stall& stall) {
  const std::int64_t timeout = flight::timeout_of(facts.ranks);
  const std::int64_t left = stall.since_ns + timeout - facts.monotonic_ns;
  const bool ends = timeout > 0 && left > 0 && stall.text.find("; limit ") == std::string::npos;
  return ends ? fmt::format("{}; LOCKSTEP_TIMEOUT ends the wait in {}", stall.text, text::duration(seconds(left)))
              : stall.text;
}

RunDiagnosis diagnose_running(const RunFacts& facts) {
  RunDiagnosis diagnosis;
  const auto stall = stall_of(facts);
  const std::string stopped = stopped_text(facts, stall);
  if (stall || !stopped.empty()) {
    diagnosis.state = RunState::kWaits;
    diagnosis.text = stopped;
    if (stall) diagnosis.text += (stopped.empty() ? "" : "; ") + waiting_text(facts, *stall);
    add_ranks(facts, diagnosis);
    diagnosis.next.push_back(fmt::format("lockstep inspect flight {} --last 40", text::shell_word(facts.path)));
    for (const flight::RankFacts& rank : facts.ranks) {
      if (flight::is_stopped(rank) && rank.ring) diagnosis.next.push_back(fmt::format("kill -CONT {}", rank.ring->pid));
    }
    return diagnosis;
  }
  diagnosis.state = RunState::kRuns;
  const AttemptFacts& attempt = facts.attempts.back();
  diagnosis.text =
      fmt::format("{} on this host{}{}", text::counted(attempt.ranks, "rank"), steps_of(facts), last_sign_of(facts));
  if (!records(facts))
    diagnosis.details.emplace_back(
        "the ranks have recorded nothing: they are starting, or the program does not use Lockstep");
  if (facts.log) diagnosis.details.push_back("log         " + log_text(*facts.log, facts.now_ns));
  if (!facts.checkpoint.empty()) diagnosis.details.push_back("checkpoint  " + facts.checkpoint);
  diagnosis.next.push_back(
      fmt::format("lockstep doctor {}   # again, if it does not continue", text::shell_word(facts.path)));
  return diagnosis;
}

void add_last_lines(const AttemptFacts& attempt, RunDiagnosis& diagnosis) {
  const int blamed = attempt.verdict ? attempt.verdict->rank : -1;
  const bool has_error = std::any_of(attempt.errors.begin(), attempt.errors.end(),
                                     [&](const FailureRecord& error) { return error.rank == blamed; });
  if (attempt.blamed_log.empty() || has_error) return;
  diagnosis.details.push_back("last lines of " + attempt.blamed_log);
  for (const std::string& line : attempt.blamed_lines) diagnosis.details.push_back("| " + line);
}

// A PeerError follows the end of another rank. On its own it is not a root cause: killing the launcher kills the ranks
// too.
const FailureRecord* first_error(const AttemptFacts& attempt) {
  const auto cause = std::find_if(attempt.errors.begin(), attempt.errors.end(),
                                  [](const FailureRecord& error) { return error.type != "PeerError"; });
  return cause == attempt.errors.end() ? nullptr : &*cause;
}

/// Returns the guard's message, which names the faulty rank and host; empty if the error was a different one. Every
/// rank ends with this message, so the first rank to end does not matter.
std::string corruption_of(const AttemptFacts& attempt) {
  for (const FailureRecord& error : attempt.errors) {
    if (error.type == "CorruptionError") return error.message;
  }
  constexpr std::string_view kMark = "CorruptionError: ";
  const std::size_t at = attempt.verdict ? attempt.verdict->message.find(kMark) : std::string::npos;
  return at == std::string::npos ? "" : attempt.verdict->message.substr(at + kMark.size());
}

void add_suspects(const RunFacts& facts, RunDiagnosis& diagnosis) {
  if (facts.suspects.empty()) return;
  const std::size_t more = facts.suspects.size() - 1;
  diagnosis.details.push_back(fmt::format("set aside   {}{}: the guard has not verified {}", facts.suspects.front(),
                                          more == 0 ? "" : fmt::format(" and {} more", more),
                                          more == 0 ? "it" : "them"));
}

RunDiagnosis diagnose_failed(const RunFacts& facts) {
  const AttemptFacts& attempt = facts.attempts.back();
  RunDiagnosis diagnosis{.state = RunState::kFailed};
  const std::string corruption = corruption_of(attempt);
  if (attempt.verdict) {
    diagnosis.text = attempt.exit_code == 0 ? attempt.verdict->message : with_code(attempt);
    if (!attempt.then.empty()) diagnosis.details.push_back("then        " + attempt.then);
    if (!attempt.verdict->hint.empty()) diagnosis.next.push_back(attempt.verdict->hint);
    diagnosis.stacks = attempt.stacks;
  } else if (const FailureRecord* const cause = first_error(attempt)) {
    diagnosis.text = fmt::format("rank {} failed: {}", cause->rank, words_of(*cause));
  }
  if (!corruption.empty()) {
    diagnosis.text = fmt::format("the guard found a wrong number: {} (exit code {})", corruption,
                                 static_cast<int>(ExitCode::kCorruption));
  }
  const std::size_t count = std::min(attempt.errors.size(), kShownErrors);
  for (std::size_t i = 0; i < count; ++i) {
    // Skips errors that the verdict already has or that repeat the first failure.
    const FailureRecord& error = attempt.errors[i];
    const std::string text = words_of(error);
    const bool is_said = diagnosis.text.find(text) != std::string::npos ||
                         (error.type == "CorruptionError" && error.message == corruption);
    if (is_said || error.type == "PeerError") continue;
    diagnosis.details.push_back(fmt::format("rank {}      {}", error.rank, text));
  }
  if (count < attempt.errors.size()) {
    diagnosis.details.push_back(fmt::format(
        "and {} of other ranks", text::counted(static_cast<std::int64_t>(attempt.errors.size() - count), "error")));
  }
  if (facts.log) diagnosis.details.push_back("log         " + log_text(*facts.log, facts.now_ns));
  add_last_lines(attempt, diagnosis);
  offer_resume(facts, diagnosis);
  if (attempt.has_rings)
    diagnosis.next.push_back(fmt::format("lockstep inspect flight {} --last 40", text::shell_word(facts.path)));
  return diagnosis;
}

RunDiagnosis diagnose_finished(const RunFacts& facts) {
  RunDiagnosis diagnosis{.state = RunState::kFinished};
  const RunSummary& summary = *facts.summary;
  std::vector<std::string> metrics;
  for (const auto& [name, value] : summary.metrics) metrics.push_back(fmt::format("{} {:.4g}", name, value));
  diagnosis.text = fmt::format("{} in {}{}{}", text::counted(summary.steps, "step"), text::duration(summary.seconds),
                               metrics.empty() ? "" : "; ", text::join(metrics));
  if (facts.log && facts.log->loss) diagnosis.details.push_back("log         " + log_text(*facts.log, facts.now_ns));
  if (!facts.checkpoint.empty()) {
    diagnosis.details.push_back("checkpoint  " + facts.checkpoint);
    diagnosis.next.push_back(fmt::format("lockstep checkpoint inspect {}", text::shell_word(facts.path)));
  }
  return diagnosis;
}

/// Returns true if the run is complete. A summary that is older than a failure or than later steps belongs to an
/// earlier part of the run.
bool is_complete(const RunFacts& facts) {
  if (!facts.summary) return false;
  const AttemptFacts* attempt = newest(facts);
  const bool is_older = attempt != nullptr && attempt->verdict && !stopped_on_request(attempt) &&
                        attempt->verdict->time_ns > facts.summary->time_ns;
  return !is_older && (!facts.log || facts.log->step <= facts.summary->steps);
}

RunDiagnosis diagnose_ended(const RunFacts& facts) {
  const AttemptFacts* attempt = newest(facts);
  RunDiagnosis diagnosis;
  if (facts.log && !facts.log->stopped_by.empty()) {
    diagnosis.state = RunState::kStopped;
    diagnosis.text = fmt::format("by {}: the run saved after step {} and exited", facts.log->stopped_by,
                                 text::thousands(facts.log->step));
    offer_resume(facts, diagnosis);
    return diagnosis;
  }
  if (stopped_on_request(attempt)) {  // not a Trainer's run, or one that ended before its save
    diagnosis.state = RunState::kStopped;
    diagnosis.text = with_code(*attempt);
    if (facts.log) diagnosis.details.push_back("log         " + log_text(*facts.log, facts.now_ns));
    offer_resume(facts, diagnosis);
    return diagnosis;
  }
  const bool has_begun = facts.log || attempt != nullptr || !facts.checkpoint.empty();
  if (!has_begun) {
    diagnosis.text = "the run has not started: there are no steps and no rank logs";
    offer_resume(facts, diagnosis);
    return diagnosis;
  }
  if (!facts.launcher_is_gone && !facts.has_settings && attempt != nullptr) {
    diagnosis.state = RunState::kEnded;
    diagnosis.text = fmt::format("{} of this host ended, and none failed; the cause is not known",
                                 text::counted(attempt->ranks, "rank"));
    return diagnosis;
  }
  diagnosis.state = RunState::kLost;
  diagnosis.text =
      facts.launcher_is_gone
          ? "the run is not running on this host, and its launcher left no record of its end: the launcher was killed, "
            "the host went down, or the run is running on another host"
          : "the run is not running on this host, and there is no record of its end: the process was killed, or the "
            "host went down";
  if (facts.log) diagnosis.details.push_back("log         " + log_text(*facts.log, facts.now_ns));
  offer_resume(facts, diagnosis);
  return diagnosis;
}

RunDiagnosis diagnose_now(const RunFacts& facts) {
  const AttemptFacts* attempt = newest(facts);
  const bool has_failed =
      attempt != nullptr && !stopped_on_request(attempt) && (attempt->verdict || first_error(*attempt) != nullptr);
  if (facts.is_launched && !(attempt->verdict)) return diagnose_running(facts);
  if (!facts.trainer.empty() && !facts.is_launched) {
    RunDiagnosis diagnosis{.state = RunState::kRuns,
                           .text = fmt::format("one process ({}){}", facts.trainer,
                                               facts.log ? ": " + log_text(*facts.log, facts.now_ns) : "")};
    if (!facts.checkpoint.empty()) diagnosis.details.push_back("checkpoint  " + facts.checkpoint);
    return diagnosis;
  }
  if (is_complete(facts)) return diagnose_finished(facts);
  return has_failed ? diagnose_failed(facts) : diagnose_ended(facts);
}

}  // namespace

const char* name_of(RunState state) {
  constexpr std::array kNames = {"runs", "waits", "finished", "ended", "stopped", "failed", "lost", "empty"};
  return kNames[static_cast<std::size_t>(state)];
}

RunDiagnosis diagnose(const RunFacts& facts) {
  RunDiagnosis diagnosis = diagnose_now(facts);
  add_suspects(facts, diagnosis);
  diagnosis.earlier = earlier_of(facts);
  diagnosis.notes = facts.notes;
  if (diagnosis.state == RunState::kFinished && facts.summary) diagnosis.report = facts.summary->step_report;
  if (!diagnosis.report && facts.log) diagnosis.report = facts.log->step_report;
  return diagnosis;
}

}  // namespace lockstep::view
