// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/agent.h"
#include "lockstep/base/standard_streams.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>

#include "launch/failure.h"
#include "launch/limits.h"
#include "launch/nodes/addresses.h"
#include "launch/nodes/membership.h"
#include "launch/output/log_folder.h"
#include "launch/program.h"
#include "launch/signals.h"
#include "launch/worker_group.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/base/wait_notice.h"

namespace lockstep {
namespace {

using namespace launch;  // NOLINT(google-build-using-namespace): this file implements the module's public header

// How long the other nodes have to read the job's outcome from this agent's store.
constexpr auto kLeaveTime = std::chrono::seconds(15);

void check(const AgentOptions& options) {
  if (options.command.empty()) throw UsageError("no program to run", "pass a program and its arguments");
  if (options.processes < 1)
    throw UsageError(
        fmt::format("the number of processes on this node is {}; it must be at least 1", options.processes));
  if (options.min_nodes < 0 || options.min_nodes > options.nodes) {
    throw UsageError(fmt::format("--nnodes {}:{}", options.min_nodes, options.nodes),
                     "use MIN:MAX, with MIN from 1 to MAX");
  }
  if (options.nodes < 1 || options.node_rank < (options.nodes > 1 ? -1 : 0) || options.node_rank >= options.nodes) {
    throw UsageError(fmt::format("--node-rank {} of --nnodes {}", options.node_rank, options.nodes),
                     "node ranks go from 0 to nnodes - 1");
  }
  if (options.nodes > 1 && options.master_port == 0) {
    throw UsageError("several nodes need a common port", "pass the same --master-port on every node");
  }
  if (options.nodes > 1 && options.token.empty() && !env::get("LOCKSTEP_TOKEN")) {
    throw UsageError(fmt::format("a run over {} nodes needs a secret, but none was given", options.nodes),
                     "set LOCKSTEP_TOKEN to the same secret on every node: lockstep run --new-token prints one");
  }
}

void log_rank_count(const AgentOptions& options) {
  if (!options.why_processes.empty()) log::note("{} ranks: {}", options.processes, options.why_processes);
  const bool is_set =
      env::get("OMP_NUM_THREADS") || std::any_of(options.environment.begin(), options.environment.end(),
                                                 [](const auto& set) { return set.first == "OMP_NUM_THREADS"; });
  if (options.processes > 1 && !is_set) log::note("{}", threads_note(options.processes));
}

// Starts the ranks. If no rank was started, returns the end to report: the order may be stale, because this agent was
// stopped or its node was cut off, and the job continues without this node.
std::optional<NodeEnd> start(std::optional<WorkerGroup>& group, const WorkerGroupSpec& spec) {
  try {
    group.emplace(spec);
    return std::nullopt;
  } catch (const TimeoutError& problem) {
    const Round& round = spec.round;
    return NodeEnd{.round = round.number,
                   .code = static_cast<int>(problem.code()),
                   .cause = record_of(problem, round.place.first_rank, host_name())};
  }
}

// Runs the rounds of one node, from joining the group to returning the exit code.
class Agent {
 public:
  Agent(const AgentOptions& options, std::string path, std::unique_ptr<Membership> membership)
      : options_(options),
        path_(std::move(path)),
        signals_(options.signals),
        membership_(std::move(membership)),
        logs_(options.log_dir),
        standbys_(options) {}

  int run() {
    for (;;) {
      std::optional<Order> order = wait_for_order();
      if (!order && end_signal_ != 0) return leave_by_signal();
      if (!order && !rejoin()) return finish_without_store();
      if (!order) continue;
      if (order->kind == Order::Kind::kRefuse) throw_refusal(*order);
      if (order->kind == Order::Kind::kEnd) return finish(*order);
      if (order->kind == Order::Kind::kAgain) {
        has_ended_ = false;
        keep_verdict(*order);
        if (options_.reports_other_nodes || !is_of_other_node(*order, facts())) warn_of_failure(*order, facts());
      }
      if (order->kind == Order::Kind::kHold) {
        held_ = order->reason;
        log::note("{}", held_);
      }
      if (order->kind != Order::Kind::kRun) continue;
      held_.clear();
      if (auto round = membership_->round_of(*order)) run_round(std::move(*round));
      if (result_.start_error != 0) throw_start_error();
      if (result_.interrupted_by != 0) return leave_by_signal();
    }
  }

 private:
  // Returns the next order; none if a signal arrived or the store is lost.
  std::optional<Order> wait_for_order() {
    WaitNotice notice(SystemClock::instance().now());
    for (;;) {
      auto order = membership_->take_order();
      // An order to run is discarded if the store was lost in the meantime: this agent would stop its ranks
      // immediately, while the other nodes would wait for them. The agent joins again instead.
      const bool is_late = order && order->kind == Order::Kind::kRun && membership_->lost();
      if (order && !is_late) return order;
      if (is_asked_to_end() || membership_->lost()) return std::nullopt;
      const auto left = notice.next() - SystemClock::instance().now();
      pollfd entries[3] = {
          {signals_.fd(), POLLIN, 0}, {membership_->orders_fd(), POLLIN, 0}, {membership_->loss_fd(), POLLIN, 0}};
      ::poll(entries, 3, static_cast<int>(std::max<std::int64_t>(0, left / std::chrono::milliseconds(1)) + 1));
      if (const auto waited = notice.due(SystemClock::instance().now()); waited && options_.nodes > 1) {
        say_waiting(waited->count());
      }
    }
  }

  void say_waiting(double seconds) {
    if (!held_.empty()) return;  // already reported, and the wait may last as long as the job
    const std::string since = text::duration(seconds);
    try {
      if (has_ended_) {
        log::note("waiting for the ranks of other nodes to end ({} so far)", since);
      } else {
        log::note("waiting at {}:{} for {} ({} so far); {} ends the wait after {}", options_.master_addr,
                  options_.master_port, membership_->missing(), since, env::timeout_variable(),
                  text::duration(Seconds(env::collective_timeout()).count()));
      }
    } catch (const Error&) {
      // The store is gone; its heartbeat connection reports the loss.
    }
  }

  bool is_asked_to_end() {
    for (int number = 0; (number = signals_.next()) != 0;) {
      if (number != SIGWINCH && number != SIGUSR1 && number != SIGUSR2) end_signal_ = number;
    }
    return end_signal_ != 0;
  }

  // Reports the start of a round. Otherwise a node without rank 0 might print nothing at all.
  void log_round(const Round& round) const {
    const Place& place = round.place;
    if (place.nodes == 1) return;
    const bool is_first_here = round_.hosts.empty();
    if (is_first_here && place.node_rank > 0 && options_.reports_other_nodes) {
      log::note("joined the group of {} nodes as node {}, with {} of {} ranks; rank 0 prints on {}", place.nodes,
                place.node_rank, place.local_world_size, place.world_size, round.hosts.front());
    } else if (round.number > 0) {
      log::note("the ranks are restarting: {} nodes, {} ranks", place.nodes, place.world_size);
    }
  }

  void run_round(Round round) {
    log_round(round);
    round_ = std::move(round);
    attempt_ = std::max(attempt_ + 1, logs_.first_free_attempt(round_.place.first_rank));
    std::optional<WorkerGroup> group;
    const auto obstacle = start(group, {.options = options_,
                                        .membership = *membership_,
                                        .round = round_,
                                        .logs = logs_,
                                        .signals = signals_,
                                        .standbys = standbys_,
                                        .path = path_,
                                        .log_attempt = attempt_});
    result_ = obstacle ? WorkerGroupResult{} : group->run();
    has_ended_ = true;
    membership_->report(obstacle ? *obstacle : end_of_round(facts()));
  }

  // After the loss of node 0, waits for its store if it may come back.
  bool rejoin() {
    const auto lost = membership_->lost();
    const bool is_range = options_.min_nodes > 0 && options_.min_nodes < options_.nodes;
    History history{.last_round = round_.number,
                    .restarts = round_.restarts,
                    .max_world_size = round_.max_world_size,
                    .peers = round_.hosts};
    if (round_.hosts.empty()) history.last_round = -1;
    if (!is_range && ++history.restarts > options_.max_restarts) return false;
    if (lost) log::warn("{}: waiting for it to come back", lost->message);
    result_.lost = lost;
    try {
      membership_.reset();
      membership_ = std::make_unique<Membership>(options_, history, [this] { return is_asked_to_end(); });
      has_ended_ = false;
      return true;
    } catch (const TimeoutError&) {
      return false;
    }
  }

  int leave_by_signal() {
    const int number = result_.interrupted_by != 0 ? result_.interrupted_by : end_signal_;
    if (membership_) membership_->leave(number, options_.shutdown_timeout + kLeaveTime);
    if (attempt_ < 0) logs_.remove();
    if (result_.interrupted_by != 0) {
      keep_verdict({.reason = fmt::format("the launcher was asked to stop ({})", signal_name(number)),
                    .is_graceful = true,
                    .code = 128 + number});
      show_logs();
    }
    return 128 + number;
  }

  int finish_without_store() {
    if (end_signal_ != 0) return 128 + end_signal_;
    const auto lost = membership_ ? membership_->lost() : result_.lost;
    if (lost) print_lost(*lost);
    show_logs();
    return static_cast<int>(ExitCode::kPeer);
  }

  int finish(const Order& order) {
    membership_->leave(0, kLeaveTime);
    if (order.code == 0) {
      logs_.remove();
      return 0;
    }
    keep_verdict(order);
    if (options_.console == ConsoleStyle::kMainRaw && is_error_of_start(order, facts())) {
      print_error_of_start(order, facts());
      show_logs();
    } else if (options_.reports_other_nodes || !is_of_other_node(order, facts())) {
      print_blame(order, facts(), options_.max_restarts > 0);
      show_logs();
    }
    return order.code;
  }

  void keep_verdict(const Order& order) const {
    if (attempt_ >= 0) {
      write_verdict(order, stacks_for(order, facts()),
                    logs_.rank_folder(attempt_, round_.place.first_rank).parent_path());
    }
  }

  [[noreturn]] void throw_refusal(const Order& order) {
    if (attempt_ < 0) logs_.remove();
    rethrow(order.cause.value_or(FailureRecord{}));
  }

  [[noreturn]] void throw_start_error() {
    membership_->leave(0, kLeaveTime);
    logs_.remove();
    if (is_shortage(result_.start_error)) throw_cannot(fmt::format("start '{}'", path_), result_.start_error);
    throw UsageError(
        start_error_text(facts()),
        "check that the program is built for this machine and that the interpreter named in its first line exists");
  }

  RoundFacts facts() const {
    return {.round = round_, .result = result_, .logs = logs_, .attempt = attempt_, .path = path_};
  }

  void show_logs() {
    if (!options_.keeps_logs) return logs_.remove();
    print_to(stderr, "  logs    {}\n", logs_.path().string());
  }

  const AgentOptions& options_;
  const std::string path_;
  // Constructed after the first wait for the store, so that Ctrl-C ends that wait immediately.
  SignalGuard signals_;
  std::unique_ptr<Membership> membership_;
  LogFolder logs_;
  Standbys standbys_;
  Round round_;
  WorkerGroupResult result_;
  int attempt_ = -1;
  int end_signal_ = 0;      ///< signal that ended a wait
  bool has_ended_ = false;  ///< the group has reported the job's end
  std::string held_;        ///< reason why this node waits while others train; empty if it is not waiting
};

}  // namespace

bool can_listen(const std::string& host, std::uint16_t port) { return is_free(host, port); }

std::uint16_t free_port(const std::string& host) { return find_free_port(host); }

std::string threads_note(int processes) {
  return fmt::format("OMP_NUM_THREADS=1 for each of {} ranks: set it if a rank should use more threads", processes);
}

int run_agent(const AgentOptions& options) {
  check(options);
  return with_shortages_named([&] {
    std::string path = find_program(options.command[0]);
    raise_file_limit(options);
    auto membership = std::make_unique<Membership>(options, History{}, [] { return false; });
    log_rank_count(options);
    return Agent(options, std::move(path), std::move(membership)).run();
  });
}

}  // namespace lockstep
