// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "launch/failure.h"
#include "launch/limits.h"
#include "launch/log_folder.h"
#include "launch/lost_node.h"
#include "launch/program.h"
#include "launch/rendezvous.h"
#include "launch/signals.h"
#include "launch/worker_group.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/launch/restart.h"
#include "lockstep/view/terminal.h"

namespace lockstep {
namespace {

using namespace launch;  // NOLINT(google-build-using-namespace): this file is the module's front

constexpr const char* kFailureCodeKey = "lockstep/failure/code";
constexpr auto kAnswerTime = std::chrono::seconds(5);
constexpr std::size_t kShownLines = 20;

void check(const AgentOptions& options) {
  if (options.command.empty()) throw UsageError("no program to run", "give a program and its arguments");
  if (options.processes < 1) throw UsageError(fmt::format("{} processes on this node", options.processes));
  if (options.nodes < 1 || options.node_rank < 0 || options.node_rank >= options.nodes) {
    throw UsageError(fmt::format("--node-rank {} of --nnodes {}", options.node_rank, options.nodes),
                     "node ranks go from 0 to nnodes - 1");
  }
  if (options.nodes > 1 && options.master_port == 0) {
    throw UsageError("several nodes need a port where they meet", "give the same --master-port on every node");
  }
  if (options.nodes > 1 && options.token.empty() && !env::get("LOCKSTEP_TOKEN")) {
    throw UsageError(fmt::format("a run over {} nodes needs a secret, and none is given", options.nodes),
                     "set LOCKSTEP_TOKEN to the same on every node: lockstep run --new-token prints one");
  }
}

void tell_of_threads(const AgentOptions& options) {
  if (options.processes > 1 && !env::get("OMP_NUM_THREADS")) {
    log::note("OMP_NUM_THREADS=1 for each of {} ranks: set it where a rank should use more threads", options.processes);
  }
}

std::string key_of(const char* what, int node) { return fmt::format("lockstep/agent/{}/{}", what, node); }

std::vector<std::string> keys_of(const char* what, int nodes) {
  std::vector<std::string> keys;
  for (int node = 0; node < nodes; ++node) keys.push_back(key_of(what, node));
  return keys;
}

// Restarts of one job, from the first attempt to the exit code.
class Agent {
 public:
  Agent(const AgentOptions& options, std::string path, Meeting meeting)
      : options_(options), path_(std::move(path)), meeting_(std::move(meeting)), logs_(options.log_dir) {}

  int run() {
    const int first_attempt = logs_.first_free_attempt(meeting_.place.first_rank);
    WorkerGroupResult result;
    for (int restarts = 0;; ++restarts) {
      result = restarts == 0 ? run_group(first_attempt, 0) : run_again(first_attempt, restarts, result);
      if (options_.nodes > 1 && result.is_success()) wait_for_other_nodes(result);
      if (result.is_success()) {
        leave(kAnswerTime);
        logs_.remove();
        return 0;
      }
      if (result.interrupted_by == 0 && result.start_error == 0 && wants_restart(result, restarts)) {
        meeting_ = {};  // frees the ports
        meeting_ = meet(options_);
        continue;
      }
      return finish(result);
    }
  }

 private:
  // What ended the attempt before is said even where the next one cannot begin.
  WorkerGroupResult run_again(int first_attempt, int restarts, const WorkerGroupResult& before) {
    try {
      return run_group(first_attempt + restarts, restarts);
    } catch (const Error&) {
      --attempt_;
      print_local(before);
      throw;
    }
  }

  WorkerGroupResult run_group(int attempt, int restarts) {
    attempt_ = attempt;
    WorkerGroup group({.options = options_,
                       .meeting = meeting_,
                       .logs = logs_,
                       .signals = signals_,
                       .path = path_,
                       .restart_count = restarts,
                       .log_attempt = attempt_});
    return group.run();
  }

  // This node's ranks are done; those of others may still fail, or need the store that we serve.
  void wait_for_other_nodes(WorkerGroupResult& result) {
    KeyWatcher done(meeting_.address, keys_of("done", options_.nodes));
    KeyWatcher failed(meeting_.address, {kFirstFailureKey});
    KeyWatcher lost(meeting_.address, {kLostNodeKey});
    meeting_.store->set(key_of("done", options_.node_rank), "1");
    pollfd entries[5] = {{signals_.fd(), POLLIN, 0},
                         {done.fd(), POLLIN, 0},
                         {failed.fd(), POLLIN, 0},
                         {lost.fd(), POLLIN, 0},
                         {meeting_.presence->fd(), POLLIN, 0}};
    for (int number = 0;;) {
      ::poll(entries, 5, -1);
      while ((number = signals_.next()) != 0) {
        if (number == SIGWINCH || number == SIGUSR1 || number == SIGUSR2) continue;
        result.interrupted_by = number;
      }
      if (result.interrupted_by != 0 || done.found() == KeyWatcher::Found::kKeys) return;
      if (done.found() == KeyWatcher::Found::kStoreIsGone || failed.found() != KeyWatcher::Found::kNothing) break;
      if (lost.found() != KeyWatcher::Found::kNothing || !meeting_.presence->lost().empty()) break;
    }
    result.has_remote_failure = true;
    if (failed.found() == KeyWatcher::Found::kKeys) {
      result.claim = parse_failure(meeting_.store->try_get(kFirstFailureKey).value_or(""));
    }
    if (lost.found() == KeyWatcher::Found::kKeys) {
      result.lost = lost_node(meeting_.store->try_get(kLostNodeKey).value_or(""), meeting_.silence);
    } else if (!result.claim) {
      const std::string why = meeting_.presence->lost();
      result.lost = lost_node_zero(meeting_.address, why.empty() ? "closed" : why, meeting_.silence);
    }
    result.claim = first_cause(result.claim, result.lost, meeting_.silence);
  }

  // The store's server goes last, so that every other node can read what happened.
  void leave(std::chrono::milliseconds patience) {
    if (options_.nodes == 1 || !meeting_.presence->lost().empty()) return;
    try {
      meeting_.store->set(key_of("left", options_.node_rank), "1");
      if (options_.node_rank == 0) meeting_.store->wait(keys_of("left", options_.nodes), patience);
    } catch (const Error&) {
      // A node that is gone needs nothing any more.
    }
  }

  bool wants_restart(const WorkerGroupResult& result, int restarts) const {
    RestartFacts facts{.nodes = options_.nodes, .restarts_done = restarts, .max_restarts = options_.max_restarts};
    const auto first = find_first(result.ends, result.claim);
    if (!first) return false;
    const WorkerEnd& end = result.ends[*first];
    if (leaves_by_request(end)) return false;
    const auto error = error_of_rank(end.rank, result);
    if (error) {
      facts.error_type = error->type;
      facts.error_text = error->message;
    }
    const auto decision = decide_restart(facts);
    if (decision.restart) {
      const std::string words = error ? error->message.substr(0, error->message.find('\n')) : "no word from it";
      log::warn("rank {} failed ({}; {}): {}, logs in {}", end.rank, describe_status(end.wait_status), words,
                decision.reason, folder_of(end.rank).string());
    } else if (options_.max_restarts > 0) {
      log::note("no restart: {}", decision.reason);
    }
    return decision.restart;
  }

  // Its error file, or, where the disk was full, what it told the others.
  std::optional<WorkerError> error_of_rank(int rank, const WorkerGroupResult& result) const {
    auto error = read_error_file(folder_of(rank) / "error.json");
    if (!error && result.claim && result.claim->rank == rank) error = error_of(*result.claim);
    return error;
  }

  std::filesystem::path folder_of(int rank) const { return logs_.rank_folder(attempt_, rank); }

  int finish(const WorkerGroupResult& result) {
    if (result.start_error != 0) {
      logs_.remove();
      if (is_shortage(result.start_error)) throw_cannot(fmt::format("start '{}'", path_), result.start_error);
      throw UsageError(
          fmt::format("cannot execute '{}' ({})", path_, std::generic_category().message(result.start_error)),
          "check that it is built for this machine and that the interpreter in its first line exists");
    }
    const bool is_remote = result.has_remote_failure && !is_ours(result);
    const int code = is_remote ? remote_code(result) : local_code(result);
    leave(is_remote ? kAnswerTime : options_.shutdown_timeout + 3 * kAnswerTime);
    if (is_remote && result.claim) {
      print_remote(result);
    } else if (result.interrupted_by == 0) {
      print_local(result);
    }
    fmt::print(stderr, "  logs    {}\n", logs_.path().string());
    return code;
  }

  bool is_ours(const WorkerGroupResult& result) const {
    if (!result.claim || result.claim->kind == FailureKind::kLost) return false;
    const int first = meeting_.place.first_rank;
    return result.claim->rank >= first && result.claim->rank < first + options_.processes;
  }

  int local_code(const WorkerGroupResult& result) {
    if (result.interrupted_by != 0) return 128 + result.interrupted_by;
    const auto first = find_first(result.ends, result.claim);
    const int code = first ? exit_code(result.ends[*first].wait_status) : static_cast<int>(ExitCode::kInternal);
    if (options_.nodes > 1 && first && !leaves_by_request(result.ends[*first])) tell_others(result.ends[*first], code);
    return code;
  }

  void tell_others(const WorkerEnd& end, int code) {
    try {
      meeting_.store->compare_set(kFirstFailureKey, "", to_json(record_of_end(end)));
      meeting_.store->set(kFailureCodeKey, std::to_string(code));
    } catch (const Error&) {
      // Node 0 is gone, and with it everybody who would read this.
    }
  }

  int remote_code(const WorkerGroupResult& result) {
    if (!result.claim || result.claim->kind == FailureKind::kLost) return static_cast<int>(ExitCode::kPeer);
    try {
      const int code = std::stoi(meeting_.store->get(kFailureCodeKey, options_.shutdown_timeout + kAnswerTime));
      return code > 0 && code < 256 ? code : static_cast<int>(ExitCode::kPeer);
    } catch (const std::exception&) {
      return static_cast<int>(ExitCode::kPeer);
    }
  }

  void print_remote(const WorkerGroupResult& result) const {
    const FailureRecord& first = *result.claim;
    if (first.kind == FailureKind::kLost) {
      fmt::print(stderr, "lockstep: {}\n  next    {}\n", first.message, first.hint);
    } else {
      fmt::print(stderr, "lockstep: rank {} on {} failed first: {}\n  its output is on that node\n", first.rank,
                 first.host, words_of(first));
    }
  }

  void print_local(const WorkerGroupResult& result) const {
    const auto first = find_first(result.ends, result.claim);
    if (!first) return;
    const WorkerEnd& end = result.ends[*first];
    if (leaves_by_request(end)) {
      fmt::print(stderr, "lockstep: rank {} left with exit code {}: it was asked to end\n", end.rank,
                 exit_code(end.wait_status));
      return;
    }
    const auto folder = folder_of(end.rank);
    FailureReport report{.end = end,
                         .host = host_name(),
                         .error = error_of_rank(end.rank, result),
                         .last_lines = last_lines(folder / "stderr.log", kShownLines),
                         .last_lines_of = (folder / "stderr.log").string()};
    // Some programs complain on stdout.
    if (const auto lines = last_lines(folder / "stdout.log", kShownLines);
        report.last_lines.empty() && !lines.empty()) {
      report.last_lines = lines;
      report.last_lines_of = (folder / "stdout.log").string();
    }
    const std::string text = format_report(report);
    const auto head = std::min(text.find('\n'), text.size());
    fmt::print(stderr, "{}{}", view::paint(text.substr(0, head), view::Color::kRed, view::use_color(STDERR_FILENO)),
               text.substr(head));
  }

  const AgentOptions& options_;
  const std::string path_;
  // Before the server's clients and after the waiting for other nodes, so that Ctrl-C ends that at once.
  SignalGuard signals_;
  Meeting meeting_;
  LogFolder logs_;
  int attempt_ = 0;
};

}  // namespace

int run_agent(const AgentOptions& options) {
  check(options);
  return with_shortages_named([&] {
    std::string path = find_program(options.command[0]);
    raise_file_limit(options);
    Meeting meeting = meet(options);
    tell_of_threads(options);
    return Agent(options, std::move(path), std::move(meeting)).run();
  });
}

}  // namespace lockstep
