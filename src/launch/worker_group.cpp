// SPDX-License-Identifier: Apache-2.0
#include "launch/worker_group.h"

#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "lockstep/base/blas.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::launch {
namespace {

// A rank that says "a peer died" is not to blame; the culprit's own end shows within this time, or there is none here.
constexpr auto kBlameTime = std::chrono::seconds(1);
// A process that SIGKILL does not end hangs in the kernel (a dead network disk): we do not wait for ever.
constexpr auto kKillTime = std::chrono::seconds(15);
// A rank of a training run takes SIGTERM as the wish that it saves and leaves with the others. Where one has failed
// they cannot, and notice it in their next collective; one that is in none is told twice.
constexpr auto kSecondTermTime = std::chrono::seconds(2);
// For a reader of our output that is only slow, once we were told to end.
constexpr auto kReaderTime = std::chrono::seconds(2);

TimePoint now() { return SystemClock::instance().now(); }

// The limit of files was lowered under us, or memory is short: what we watch can still be read, without waiting for it.
void look_at_all(std::vector<pollfd>& entries) {
  const timespec nap{0, 10'000'000};
  ::nanosleep(&nap, nullptr);
  for (pollfd& entry : entries) entry.revents = entry.fd >= 0 ? entry.events : 0;
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : fmt::format("SIG{}", name);
}

std::vector<std::string> environment_of(const WorkerGroupSpec& spec, int local_rank, const RankLog& log) {
  Place place = spec.meeting.place;
  place.local_rank = local_rank;
  static const std::string blas_core = blas::core_for_programs();
  return worker_environment(own_environment(), {.place = place,
                                                .master_addr = spec.meeting.master_addr,
                                                .master_port = spec.meeting.master_port,
                                                .store = spec.meeting.address,
                                                .error_file = log.error_file().string(),
                                                .role = spec.options.role,
                                                .run_id = spec.meeting.run_id,
                                                .restart_count = spec.restart_count,
                                                .max_restarts = spec.options.max_restarts,
                                                .blas_core = blas_core,
                                                .extra = spec.options.environment});
}

// Before the others are stopped: their messages can then point to it.
void publish(Store& store, const FailureRecord& record) {
  try {
    store.compare_set(kFirstFailureKey, "", to_json(record));
  } catch (const Error& problem) {
    log::warn("the failure of rank {} was not published: {}", record.rank, problem.message());
  }
}

bool is_local(const Place& place, int rank) {
  return rank >= place.first_rank && rank < place.first_rank + place.local_world_size;
}

/// For poll(): milliseconds until then; -1: for ever.
int timeout_ms(TimePoint next) {
  if (next == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

}  // namespace

bool WorkerGroupResult::is_success() const {
  return interrupted_by == 0 && start_error == 0 && !has_remote_failure &&
         std::none_of(ends.begin(), ends.end(), has_failed);
}

TimePoint StopTimes::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& time : {drop_at, stop_at, stop_again_at, give_up_at}) next = std::min(next, time.value_or(next));
  return next;
}

WorkerGroup::WorkerGroup(const WorkerGroupSpec& spec) : spec_(spec), output_(spec.options.console) {
  if (spec.options.nodes > 1) {
    watcher_ = std::make_unique<KeyWatcher>(spec.meeting.address, std::vector<std::string>{kFirstFailureKey});
    lost_watcher_ = std::make_unique<KeyWatcher>(spec.meeting.address, std::vector<std::string>{kLostNodeKey});
  }
  for (int local_rank = 0; local_rank < spec.options.processes; ++local_rank) start(local_rank);
}

void WorkerGroup::start(int local_rank) {
  const int rank = spec_.meeting.place.first_rank + local_rank;
  Member member;
  member.log = std::make_unique<RankLog>(spec_.logs.rank_folder(spec_.log_attempt, rank));
  WorkerSpec worker{.rank = rank,
                    .path = spec_.path,
                    .arguments = spec_.options.command,
                    .environment = environment_of(spec_, local_rank, *member.log),
                    .takes_input = rank == 0,
                    .output = output_.channel_of(rank, 0),
                    .errors = output_.channel_of(rank, 1),
                    .prefix_columns = output_.prefix_columns(),
                    .leftover_grace = std::min(spec_.options.shutdown_timeout, std::chrono::milliseconds(2000))};
  member.worker = std::make_unique<Worker>(worker);
  members_.push_back(std::move(member));
}

WorkerGroupResult WorkerGroup::run() {
  const auto is_left = [](const Member& member) { return !member.worker->is_gone(); };
  while (std::any_of(members_.begin(), members_.end(), is_left)) wait_for_event();
  show_the_rest();
  await_cause();
  try {
    const bool can_ask = !spec_.meeting.presence || spec_.meeting.presence->lost().empty();
    const auto claim = can_ask ? spec_.meeting.store->try_get(kFirstFailureKey) : std::nullopt;
    if (claim) result_.claim = parse_failure(*claim);
  } catch (const Error&) {
    // The store of another node is gone: what this node saw must do.
  }
  result_.claim = first_cause(result_.claim, result_.lost, spec_.meeting.silence);
  return result_;
}

void WorkerGroup::await_cause() {
  const auto names_no_cause = [](const WorkerEnd& end) { return !has_failed(end) || is_consequence(end); };
  const bool has_cause = result_.is_success() || result_.has_remote_failure || result_.interrupted_by != 0 ||
                         !std::all_of(result_.ends.begin(), result_.ends.end(), names_no_cause) ||
                         std::any_of(result_.ends.begin(), result_.ends.end(), leaves_by_request);
  if (has_cause || !lost_watcher_ || !watcher_) return;
  const TimePoint deadline = now() + spec_.meeting.silence + kBlameTime;
  pollfd entries[4] = {{spec_.signals.fd(), POLLIN, 0},
                       {watcher_->fd(), POLLIN, 0},
                       {lost_watcher_->fd(), POLLIN, 0},
                       {spec_.meeting.presence->fd(), POLLIN, 0}};
  if (::poll(entries, 4, timeout_ms(deadline)) <= 0) return;
  if (entries[0].revents != 0) on_signals();
  if (entries[2].revents != 0 || entries[3].revents != 0) on_lost_node();
}

// A pager that does not read must not keep us from obeying: the logs have everything.
void WorkerGroup::show_the_rest() {
  // Told before the ranks were gone, it gives the reader a moment; told now, none.
  if (std::exchange(is_told_to_end_, false)) times_.drop_at = now() + kReaderTime;
  const auto is_late = [this] { return times_.drop_at && now() >= *times_.drop_at; };
  while (output_.console().waiting_fd() >= 0 && !is_told_to_end_ && !is_late()) wait_for_event();
  output_.console().drop();
}

void WorkerGroup::wait_for_event() {
  std::vector<pollfd> entries;
  entries.push_back({spec_.signals.fd(), POLLIN, 0});
  entries.push_back({watcher_ ? watcher_->fd() : -1, POLLIN, 0});
  entries.push_back({output_.console().waiting_fd(), POLLOUT, 0});
  entries.push_back({lost_watcher_ ? lost_watcher_->fd() : -1, POLLIN, 0});
  entries.push_back({lost_watcher_ ? spec_.meeting.presence->fd() : -1, POLLIN, 0});
  const std::size_t first = entries.size();
  for (const auto& member : members_) {
    entries.push_back({member.worker->control(), POLLIN, 0});
    for (int stream = 0; stream < 2; ++stream) {
      entries.push_back({output_.console().is_full() ? -1 : member.worker->output(stream), POLLIN, 0});
    }
  }
  if (::poll(entries.data(), entries.size(), timeout_ms(std::min(times_.next(), output_.idle_at()))) < 0 &&
      errno != EINTR)
    look_at_all(entries);
  if (entries[2].revents != 0) output_.console().write_some();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const bool has_out = entries[first + 3 * i + 1].revents != 0;
    const bool has_err = entries[first + 3 * i + 2].revents != 0;
    // A bar is cleared on stderr before a row follows on stdout: by now both have been written, so in that order.
    if (has_err || (has_out && members_[i].worker->output(1) >= 0))
      output_.read(*members_[i].worker, *members_[i].log, 1, false);
    if (has_out && output_.more_errors_arrive(*members_[i].worker))
      output_.read(*members_[i].worker, *members_[i].log, 1, false);
    if (has_out) output_.read(*members_[i].worker, *members_[i].log, 0, false);
    if (entries[first + 3 * i].revents != 0) on_control(members_[i]);
  }
  if (entries[0].revents != 0) on_signals();
  if (entries[1].revents != 0) on_watcher();
  if (entries[3].revents != 0 || entries[4].revents != 0) on_lost_node();
  on_times();
}

void WorkerGroup::on_times() {
  output_.on_time(now());
  if (times_.stop_at && now() >= *times_.stop_at) stop_failed_group();
  if (times_.stop_again_at && now() >= *times_.stop_again_at) {
    times_.stop_again_at.reset();
    order(SIGTERM, spec_.options.shutdown_timeout);
  }
  if (times_.give_up_at && now() >= *times_.give_up_at) {
    times_.give_up_at.reset();
    for (auto& member : members_) {
      if (member.worker->is_gone()) continue;
      log::warn("rank {} (pid {}) does not end after SIGKILL: it hangs in the kernel and is left behind",
                member.worker->rank(), member.pid);
      member.worker->abandon();
      if (!member.has_ended) on_end(member, SIGKILL, SIGKILL);
    }
  }
}

void WorkerGroup::on_signals() {
  for (int number = 0; (number = spec_.signals.next()) != 0;) {
    is_told_to_end_ = is_told_to_end_ || (number != SIGWINCH && number != SIGUSR1 && number != SIGUSR2);
    if (number == SIGWINCH) {
      for (const auto& member : members_) output_.resize(*member.worker);
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      order(number, std::chrono::milliseconds(-1));
    } else if (is_stopping_) {
      order(SIGKILL, std::chrono::milliseconds(0));
    } else {
      result_.interrupted_by = number;
      log::note("{}: stopping {} ranks (once more to kill them)", signal_name(number), members_.size());
      stop(number == SIGHUP ? SIGTERM : number);
    }
  }
}

void WorkerGroup::on_watcher() {
  if (watcher_->found() == KeyWatcher::Found::kStoreIsGone) return on_lost_node();
  std::optional<FailureRecord> claim;
  try {
    claim = parse_failure(spec_.meeting.store->try_get(kFirstFailureKey).value_or(""));
  } catch (const Error&) {
    return on_lost_node();
  }
  watcher_.reset();
  if (claim && is_local(spec_.meeting.place, claim->rank)) return;  // its own end will tell
  result_.has_remote_failure = true;
  result_.claim = claim;
  if (!is_stopping_) stop_failed_group();
}

// Node 0 is lost with its store; another is what the store says.
void WorkerGroup::on_lost_node() {
  if (!lost_watcher_) return;  // two watchers told of one loss
  const Meeting& meeting = spec_.meeting;
  const bool is_told = lost_watcher_->found() == KeyWatcher::Found::kKeys;
  try {
    if (is_told) result_.lost = lost_node(meeting.store->try_get(kLostNodeKey).value_or(""), meeting.silence);
  } catch (const Error&) {
    // This node was frozen, and node 0 has ended without it.
  }
  if (!result_.lost) {
    const std::string why = meeting.presence->lost();
    result_.lost = lost_node_zero(meeting.address, why.empty() ? "closed" : why, meeting.silence);
  }
  watcher_.reset();
  lost_watcher_.reset();
  result_.has_remote_failure = true;
  if (is_told && meeting.presence->lost().empty()) publish(*meeting.store, result_.lost->record);
  if (!is_stopping_) stop_failed_group();
}

void WorkerGroup::on_control(Member& member) {
  while (const auto report = member.worker->read_report()) on_report(member, *report);
  if (!member.worker->is_gone()) return;
  // Nothing of the tree is alive, so what lies in the pipes is all there will ever be.
  output_.close(*member.worker, *member.log);
  if (!member.has_ended) on_end(member, SIGKILL, 0);  // somebody killed the stub, and the worker died with it
}

void WorkerGroup::on_report(Member& member, const StubReport& report) {
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

void WorkerGroup::on_end(Member& member, int status, int signal_sent) {
  member.has_ended = true;
  const WorkerEnd end{member.worker->rank(), member.pid, status, signal_sent};
  result_.ends.push_back(end);
  if (!has_failed(end) || is_stopping_) return;
  if (leaves_by_request(end)) {
    // All ranks leave at one step, so the others follow.
    if (!times_.stop_at) times_.stop_at = now() + spec_.options.shutdown_timeout;
  } else if (is_consequence(end)) {
    if (!times_.stop_at) times_.stop_at = now() + kBlameTime;
  } else {
    publish(*spec_.meeting.store, record_of_end(end));
    stop_failed_group();
  }
}

void WorkerGroup::order(int signal, std::chrono::milliseconds grace) {
  for (const auto& member : members_) member.worker->order(signal, grace);
}

void WorkerGroup::stop_failed_group() {
  stop(SIGTERM);
  times_.stop_again_at = now() + kSecondTermTime;
}

void WorkerGroup::stop(int signal) {
  is_stopping_ = true;
  times_.stop_at.reset();
  times_.give_up_at = now() + spec_.options.shutdown_timeout + kKillTime;
  order(signal, spec_.options.shutdown_timeout);
}

}  // namespace lockstep::launch
