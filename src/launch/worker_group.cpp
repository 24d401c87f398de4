// SPDX-License-Identifier: Apache-2.0
#include "launch/worker_group.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "launch/event_loop.h"
#include "launch/hangs/hang.h"
#include "launch/limits.h"
#include "launch/worker_env.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/blas.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/flight/verdict.h"

namespace lockstep::launch {
namespace {

// A rank that reports "a peer died" is not to blame; if the one to blame is on this node, it ends within this time.
constexpr auto kBlameTime = std::chrono::seconds(1);
// A process that survives SIGKILL is hanging in the kernel (a dead network disk); it is abandoned after this time.
constexpr auto kKillTime = std::chrono::seconds(15);
// A rank of a training run takes SIGTERM as a request to save and leave with the others. If one has failed, the others
// cannot do so, and find out in their next collective; a rank that is not in a collective gets the signal twice.
constexpr auto kSecondTermTime = std::chrono::seconds(2);
// How long a slow reader of the output has once the agent has been asked to end.
constexpr auto kReaderTime = std::chrono::seconds(2);

TimePoint now() { return SystemClock::instance().now(); }

// The clock of all waits here: if a group is suspended while its ranks are ending, they still get the rest of their
// time afterwards.
TimePoint awake_now() { return AwakeClock::instance().now(); }

std::vector<std::string> environment_of(const WorkerGroupSpec& spec, int local_rank, const RankLog* log,
                                        const FlightRing* ring) {
  Place place = spec.round.place;
  place.local_rank = local_rank;
  static const std::string blas_core = blas::core_for_programs();
  return worker_environment(own_environment(), {.place = place,
                                                .master_addr = spec.options.master_addr,
                                                .master_port = spec.round.master_port,
                                                .store = spec.membership.address(),
                                                .store_prefix = spec.round.keys,
                                                .error_file = log != nullptr ? log->error_file().string() : "",
                                                .flight_ring = ring != nullptr ? ring->path() : "",
                                                .role = spec.options.role,
                                                .run_id = spec.membership.run_id(),
                                                .restart_count = spec.round.number,
                                                .max_world_size = spec.round.max_world_size,
                                                .min_world_size = spec.round.min_world_size,
                                                .max_restarts = spec.options.max_restarts,
                                                .virtual_local_rank = spec.options.virtual_local_rank,
                                                .blas_core = blas_core,
                                                .extra = spec.options.environment});
}

WorkerSpec worker_spec(const WorkerGroupSpec& spec, const GroupOutput& output, int local_rank,
                       const RankLog* log = nullptr, const FlightRing* ring = nullptr) {
  const int rank = spec.round.place.first_rank + local_rank;
  return {.rank = rank,
          .path = spec.path,
          .arguments = spec.options.command,
          .environment = environment_of(spec, local_rank, log, ring),
          .input = rank == 0 ? STDIN_FILENO : -1,
          .output = output.channel_of(rank, 0),
          .errors = output.channel_of(rank, 1),
          .prefix_columns = output.prefix_columns(),
          .leftover_grace = std::min(spec.options.shutdown_timeout, std::chrono::milliseconds(2000))};
}

// Publishes a cause before the other ranks are stopped, so that their messages can refer to it.
void publish(Store& store, const FailureRecord& record) {
  try {
    store.compare_set(kFirstFailureKey, "", to_json(record));
  } catch (const Error& problem) {
    log::warn("the failure of rank {} was not published: {}", record.rank, problem.message());
  }
}

std::optional<FailureRecord> claim_of(Store& store) {
  return parse_failure(store.try_get(kFirstFailureKey).value_or(""));
}

bool is_local(const Place& place, int rank) {
  return rank >= place.first_rank && rank < place.first_rank + place.local_world_size;
}

std::vector<WatchedRank> watched(const std::vector<WorkerMember>& members) {
  std::vector<WatchedRank> ranks;
  for (const WorkerMember& member : members) {
    ranks.push_back({member.worker->rank(), member.pid, member.ring.get(), member.has_ended, member.has_succeeded,
                     member.log->stack_file()});
  }
  return ranks;
}

std::int64_t last_step_of(const std::vector<WorkerMember>& members) {
  std::int64_t last = -1;
  for (const WorkerMember& member : members) {
    if (const auto state = member.ring->state()) last = std::max(last, state->step);
  }
  return last;
}

std::unique_ptr<LongWorkLink> link_of(const WorkerGroupSpec& spec, const char* topic) {
  if (spec.round.place.nodes < 2) return nullptr;
  return std::make_unique<LongWorkLink>(spec.membership.address(), spec.round.keys + topic);
}

/// Returns poll()'s timeout until `next`, or until the next check of `stop`, a time of AwakeClock; -1 means no limit.
int timeout_ms(TimePoint next, TimePoint stop) {
  auto left = std::chrono::nanoseconds::max();
  if (next != TimePoint::max()) left = next - now();
  if (stop != TimePoint::max()) left = std::min(left, awake_slice(stop - awake_now()));
  if (left == std::chrono::nanoseconds::max()) return -1;
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(whole, 0, INT_MAX));
}

// Reads stderr before stdout: a rank clears its bar on stderr before it writes a row to stdout.
void read_output(GroupOutput& output, const WorkerMember& member, int stream) {
  if (stream == 0 && member.worker->output(1) >= 0) output.read(*member.worker, *member.log, 1, false);
  if (stream == 0 && output.more_errors_arrive(*member.worker)) output.read(*member.worker, *member.log, 1, false);
  output.read(*member.worker, *member.log, stream, false);
}

}  // namespace

bool WorkerGroupResult::is_success() const {
  return interrupted_by == 0 && start_error == 0 && std::none_of(ends.begin(), ends.end(), has_failed);
}

TimePoint StopTimes::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& time : {drop_at, stop_at, stop_again_at, give_up_at}) next = std::min(next, time.value_or(next));
  return next;
}

WorkerGroup::WorkerGroup(const WorkerGroupSpec& spec)
    : spec_(spec),
      output_(spec.options, spec.round.place.first_rank),
      hangs_([this](const char* topic) { return link_of(spec_, topic); }) {
  watcher_ = std::make_unique<KeyWatcher>(spec.membership.address(), spec.round.keys + kFirstFailureKey);
  for (int local_rank = 0; local_rank < spec.options.processes; ++local_rank) start(local_rank);
  spec.standbys.begin_round(now());
}

void WorkerGroup::start(int local_rank) {
  const int rank = spec_.round.place.first_rank + local_rank;
  WorkerMember member;
  member.log = std::make_unique<RankLog>(spec_.logs.rank_folder(spec_.log_attempt, rank));
  member.ring = std::make_unique<FlightRing>(member.log->flight_file());
  const WorkerSpec worker = worker_spec(spec_, output_, local_rank, member.log.get(), member.ring.get());
  auto standby = spec_.standbys.take(local_rank);
  if (standby && standby->worker->take_over(rank, worker.environment)) {
    member.worker = std::move(standby->worker);
    member.pid = standby->pid;
  } else {
    standby.reset();
    member.worker = std::make_unique<Worker>(worker);
  }
  members_.push_back(std::move(member));
}

void WorkerGroup::start_standbys() {
  std::vector<RunningRank> ranks;
  for (const WorkerMember& member : members_) ranks.push_back({member.worker->rank(), member.pid});
  const auto store = spec_.membership.store_of(spec_.round);
  const bool is_possible = !is_stopping_ && !result_.lost && can_have_standbys(ranks, *store, spec_.path);
  spec_.standbys.start(now(), is_possible, [this](int local_rank) { return worker_spec(spec_, output_, local_rank); });
}

WorkerGroupResult WorkerGroup::run() {
  const auto is_left = [](const WorkerMember& member) { return !member.worker->is_gone(); };
  while (std::any_of(members_.begin(), members_.end(), is_left)) wait_for_event();
  show_the_rest();
  result_.last_step = last_step_of(members_);
  result_.place = flight::place_of(states_of(watched(members_)).front());
  try {
    if (!result_.lost) result_.claim = claim_of(*spec_.membership.store_of(spec_.round));
  } catch (const Error&) {
    // The other node's store is gone: this node's own facts must suffice.
  }
  return result_;
}

// Shows the rest of the output. A pager that is not reading must not delay an order: the logs have everything.
void WorkerGroup::show_the_rest() {
  // If an order to end arrived before the ranks were gone, the reader gets a moment; if one arrives now, it gets none.
  if (std::exchange(is_asked_to_end_, false)) times_.drop_at = awake_now() + kReaderTime;
  const auto is_late = [this] { return times_.drop_at && awake_now() >= *times_.drop_at; };
  while (output_.console().waiting_fd() >= 0 && !is_asked_to_end_ && !is_late()) wait_for_event();
  output_.console().drop();
}

void WorkerGroup::wait_for_event() {
  EventLoop loop;
  loop.add(output_.console().waiting_fd(), POLLOUT, [this] { output_.console().write_some(); });
  for (WorkerMember& member : members_) {
    for (const int stream : {1, 0}) {
      const int fd = output_.console().is_full() ? -1 : member.worker->output(stream);
      loop.add(fd, POLLIN, [this, &member, stream] { read_output(output_, member, stream); });
    }
    loop.add(member.worker->control(), POLLIN, [this, &member] { on_control(member); });
  }
  loop.add(spec_.signals.fd(), POLLIN, [this] { on_signals(); });
  loop.add(watcher_ ? watcher_->fd() : -1, POLLIN, [this] { on_first_failure(); });
  loop.add(spec_.membership.orders_fd(), POLLIN, [this] { on_orders(); });
  loop.add(result_.lost ? -1 : spec_.membership.loss_fd(), POLLIN, [this] {
    result_.lost = spec_.membership.lost();
    watcher_.reset();
    if (!is_stopping_) stop_failed_group();
  });
  loop.turn(timeout_ms(std::min({output_.idle_at(), spec_.standbys.due(), hangs_.due()}), times_.next()));
  on_times();
}

void WorkerGroup::on_times() {
  output_.on_time(now());
  if (now() >= spec_.standbys.due()) start_standbys();
  if (is_stopping_ || result_.lost || result_.found) hangs_.end();
  if (now() >= hangs_.due()) result_.found = hangs_.look(now(), watched(members_), output_.count());
  const bool is_unexplained = times_.stop_at && awake_now() >= *times_.stop_at && !result_.found;
  // Ranks blame another rank, but none failed here: they may have lost a rank that was stopped.
  if (is_unexplained && std::none_of(result_.ends.begin(), result_.ends.end(), leaves_by_request)) {
    result_.found = find_stopped(watched(members_));
  }
  if (result_.found && !is_stopping_) {
    publish(*spec_.membership.store_of(spec_.round), *result_.found);
    stop_failed_group();
  }
  if (times_.stop_at && awake_now() >= *times_.stop_at) stop_failed_group();
  if (times_.stop_again_at && awake_now() >= *times_.stop_again_at) {
    times_.stop_again_at.reset();
    order(SIGTERM, spec_.options.shutdown_timeout);
  }
  if (times_.give_up_at && awake_now() >= *times_.give_up_at) {
    times_.give_up_at.reset();
    for (auto& member : members_) {
      if (member.worker->is_gone()) continue;
      log::warn("rank {} (pid {}) does not end after SIGKILL: it is hanging in the kernel and is abandoned",
                member.worker->rank(), member.pid);
      member.worker->abandon();
      if (!member.has_ended) on_end(member, SIGKILL, SIGKILL);
    }
  }
}

void WorkerGroup::on_signals() {
  for (int number = 0; (number = spec_.signals.next()) != 0;) {
    is_asked_to_end_ = is_asked_to_end_ || (number != SIGWINCH && number != SIGUSR1 && number != SIGUSR2);
    if (number == SIGWINCH) {
      for (const auto& member : members_) output_.resize(*member.worker);
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      order(number, std::chrono::milliseconds(-1));
    } else if (is_stopping_) {
      order(SIGKILL, std::chrono::milliseconds(0));
    } else {
      result_.interrupted_by = number;
      log::note("{}: stopping {} ranks (repeat to kill them)", signal_name(number), members_.size());
      stop(number == SIGHUP ? SIGTERM : number);
    }
  }
}

// Handles a published failure. A rank publishes it before its program exits, which takes libtorch about 0.2 s.
void WorkerGroup::on_first_failure() {
  watcher_.reset();
  try {
    result_.claim = claim_of(*spec_.membership.store_of(spec_.round));
  } catch (const Error&) {
    return;  // the store is gone; its heartbeat connection reports the loss
  }
  if (!result_.claim || is_stopping_) return;
  const bool is_own = is_local(spec_.round.place, result_.claim->rank);
  if (result_.claim->kind == FailureKind::kTimeout) {
    result_.found = find_hang(watched(members_), is_own ? nullptr : &*result_.claim);
  }
  if (is_own && !result_.found) return;  // the rank's own end will report it
  stop_failed_group();
}

// Handles orders. Only an order to stop can arrive while ranks run.
void WorkerGroup::on_orders() {
  while (const auto order = spec_.membership.take_order()) {
    if (order->kind != Order::Kind::kStop || order->round != spec_.round.number || is_stopping_) continue;
    if (order->is_graceful) {
      result_.was_asked_to_save = true;
      log::note("{}: the ranks save, and restart with the new node", order->reason);
      stop(SIGTERM);
    } else {
      if (order->cause && !result_.found) result_.found = find_hang(watched(members_), &*order->cause);
      if (order->cause) publish(*spec_.membership.store_of(spec_.round), *order->cause);
      stop_failed_group();
    }
  }
}

void WorkerGroup::on_control(WorkerMember& member) {
  while (const auto report = member.worker->read_report()) on_report(member, *report);
  if (!member.worker->is_gone()) return;
  // No process of the tree is alive, so the pipes already contain the last bytes.
  output_.close(*member.worker, *member.log);
  if (!member.has_ended) on_end(member, SIGKILL, 0);  // the stub was killed, and the worker with it
}

void WorkerGroup::on_report(WorkerMember& member, const StubReport& report) {
  if (report.event == StubEvent::kStarted) {
    member.pid = report.value;
  } else if (report.event == StubEvent::kExecFailed) {
    member.has_ended = true;
    result_.start_error = report.value;
    if (!is_stopping_) stop_failed_group();
  } else {
    on_end(member, report.value, report.signal_sent);
  }
}

void WorkerGroup::on_end(WorkerMember& member, int status, int signal_sent) {
  member.has_ended = true;
  member.has_succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  WorkerEnd end{.rank = member.worker->rank(), .pid = member.pid, .wait_status = status, .signal_sent = signal_sent};
  const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (is_killed && signal_sent == 0 && !is_stopping_) {
    const std::string memory = memory_kills_.why(member.pid);
    end.why = memory.empty() ? cpu_limit_words() : memory;
  }
  result_.ends.push_back(end);
  if (is_stopping_) return;
  // A rank that left too early may take longer to exit than the ranks that noticed it.
  const bool peers_noticed = times_.stop_at && !result_.found;
  if (!has_failed(end)) {
    if (peers_noticed) result_.found = find_left(watched(members_));
  } else if (leaves_by_request(end)) {
    // All ranks leave at the same step, so the others will follow.
    if (!times_.stop_at) times_.stop_at = awake_now() + spec_.options.shutdown_timeout;
  } else if (is_consequence(end)) {
    if (!result_.found) result_.found = find_left(watched(members_));
    if (!times_.stop_at) times_.stop_at = awake_now() + kBlameTime;
  } else {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code == static_cast<int>(ExitCode::kTimeout)) result_.found = find_hang(watched(members_));
    if (code == static_cast<int>(ExitCode::kUsage)) result_.found = find_odd(watched(members_));
    publish(*spec_.membership.store_of(spec_.round), result_.found.value_or(record_of_end(end)));
    stop_failed_group();
  }
}

void WorkerGroup::order(int signal, std::chrono::milliseconds grace) {
  for (const auto& member : members_) member.worker->order(signal, grace);
}

void WorkerGroup::stop_failed_group() {
  if (result_.found && result_.stacks.empty()) result_.stacks = stacks_of_late(*result_.found, watched(members_));
  // A stopped process does not receive SIGTERM.
  for (const WorkerMember& member : members_) {
    const bool hangs = result_.found && result_.found->rank == member.worker->rank();
    if (hangs) member.worker->order(SIGKILL, std::chrono::milliseconds(0));
  }
  stop(SIGTERM);
  times_.stop_again_at = awake_now() + kSecondTermTime;
}

void WorkerGroup::stop(int signal) {
  is_stopping_ = true;
  times_.stop_at.reset();
  times_.give_up_at = awake_now() + spec_.options.shutdown_timeout + kKillTime;
  order(signal, spec_.options.shutdown_timeout);
}

}  // namespace lockstep::launch
