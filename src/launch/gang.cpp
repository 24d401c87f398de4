// SPDX-License-Identifier: Apache-2.0
#include "launch/gang.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

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
constexpr auto kIdleTime = std::chrono::milliseconds(300);

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

}  // namespace

bool GangResult::is_success() const {
  return interrupted_by == 0 && start_error == 0 && !has_remote_failure &&
         std::none_of(ends.begin(), ends.end(), has_failed);
}

Gang::Gang(const GangSpec& spec)
    : spec_(spec),
      mux_options_(Console::describe(spec.options.console)),
      mux_(mux_options_, [this](int stream, std::string_view bytes) { console_.put(stream, bytes); }) {
  if (spec.options.nodes > 1) {
    watcher_ = std::make_unique<KeyWatcher>(spec.meeting.address, std::vector<std::string>{kFailureKey});
  }
  for (int local_rank = 0; local_rank < spec.options.processes; ++local_rank) start(local_rank);
}

void Gang::start(int local_rank) {
  const int rank = spec_.meeting.place.first_rank + local_rank;
  Member member;
  member.log = std::make_unique<RankLog>(spec_.logs.rank_folder(spec_.log_attempt, rank));
  WorkerSpec worker{.rank = rank,
                    .path = spec_.path,
                    .arguments = spec_.options.command,
                    .environment = environment_of(local_rank, *member.log),
                    .takes_input = rank == 0,
                    .output = channel_of(rank, 0),
                    .errors = channel_of(rank, 1),
                    .prefix_columns = prefix_columns(),
                    .leftover_grace = std::min(spec_.options.shutdown_timeout, std::chrono::milliseconds(2000))};
  member.worker = std::make_unique<Worker>(worker);
  members_.push_back(std::move(member));
}

std::vector<std::string> Gang::environment_of(int local_rank, const RankLog& log) const {
  Place place = spec_.meeting.place;
  place.local_rank = local_rank;
  static const std::string blas_core = blas::core_for_programs();
  return worker_environment(own_environment(), {.place = place,
                                                .master_addr = spec_.meeting.master_addr,
                                                .master_port = spec_.meeting.master_port,
                                                .store = spec_.meeting.address,
                                                .error_file = log.error_file().string(),
                                                .role = spec_.options.role,
                                                .run_id = spec_.meeting.run_id,
                                                .restart_count = spec_.restart_count,
                                                .max_restarts = spec_.options.max_restarts,
                                                .blas_core = blas_core,
                                                .extra = spec_.options.environment});
}

Channel Gang::channel_of(int rank, int stream) const {
  // So that it draws its progress bar; with prefixed lines that is kept below the lines of all.
  return rank == 0 && mux_options_.is_terminal[stream] ? Channel::kTerminal : Channel::kPipe;
}

// Of "[0]: ", which stands before every line of rank 0, the one rank that has a terminal.
int Gang::prefix_columns() const { return spec_.options.console == ConsoleStyle::kPrefix ? 5 : 0; }

GangResult Gang::run() {
  while (is_any_left()) wait_for_event();
  show_the_rest();
  try {
    if (const auto claim = spec_.meeting.store->try_get(kFailureKey)) result_.claim = parse_claim(*claim);
  } catch (const Error&) {
    // The store of another node is gone: what this node saw must do.
  }
  return result_;
}

// A pager that does not read must not keep us from obeying: the logs have everything.
void Gang::show_the_rest() {
  // Told before the ranks were gone, it gives the reader a moment; told now, none.
  if (std::exchange(is_told_to_end_, false)) drop_at_ = now() + kReaderTime;
  const auto is_late = [this] { return drop_at_ && now() >= *drop_at_; };
  while (console_.waiting_fd() >= 0 && !is_told_to_end_ && !is_late()) wait_for_event();
  console_.drop();
}

bool Gang::is_any_left() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& member) { return !member.worker->is_gone(); });
}

bool Gang::is_local(int rank) const {
  const Place& place = spec_.meeting.place;
  return rank >= place.first_rank && rank < place.first_rank + place.local_world_size;
}

void Gang::wait_for_event() {
  std::vector<pollfd> entries;
  entries.push_back({spec_.signals.fd(), POLLIN, 0});
  entries.push_back({watcher_ ? watcher_->fd() : -1, POLLIN, 0});
  entries.push_back({console_.waiting_fd(), POLLOUT, 0});
  const std::size_t first = entries.size();
  for (const auto& member : members_) {
    entries.push_back({member.worker->control(), POLLIN, 0});
    for (int stream = 0; stream < 2; ++stream) {
      entries.push_back({console_.is_full() ? -1 : member.worker->output(stream), POLLIN, 0});
    }
  }
  if (::poll(entries.data(), entries.size(), timeout_ms()) < 0 && errno != EINTR) look_at_all(entries);
  if (entries[2].revents != 0) console_.write_some();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const bool has_out = entries[first + 3 * i + 1].revents != 0;
    const bool has_err = entries[first + 3 * i + 2].revents != 0;
    // A bar is cleared on stderr before a row follows on stdout: by now both have been written, so in that order.
    if (has_err || (has_out && members_[i].worker->output(1) >= 0)) read_output(members_[i], 1, false);
    if (has_out && more_errors_arrive(*members_[i].worker)) read_output(members_[i], 1, false);
    if (has_out) read_output(members_[i], 0, false);
    if (entries[first + 3 * i].revents != 0) on_control(members_[i]);
  }
  if (entries[0].revents != 0) on_signals();
  if (entries[1].revents != 0) on_watcher();
  on_times();
}

/// Of two terminals, what was written to the first may arrive after what was written to the second: the kernel hands
/// each on in a thread of its own. On a busy machine that takes a moment.
bool Gang::more_errors_arrive(const Worker& worker) const {
  constexpr int kLagMs = 5;
  pollfd entry{worker.output(1), POLLIN, 0};
  return channel_of(worker.rank(), 1) == Channel::kTerminal && entry.fd >= 0 && ::poll(&entry, 1, kLagMs) > 0;
}

int Gang::timeout_ms() const {
  TimePoint next = mux_.wants_idle() ? last_output_ + kIdleTime : TimePoint::max();
  if (stop_at_) next = std::min(next, *stop_at_);
  if (stop_again_at_) next = std::min(next, *stop_again_at_);
  if (give_up_at_) next = std::min(next, *give_up_at_);
  if (drop_at_) next = std::min(next, *drop_at_);
  if (next == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

void Gang::on_times() {
  if (mux_.wants_idle() && now() >= last_output_ + kIdleTime) mux_.idle();
  if (stop_at_ && now() >= *stop_at_) stop_failed_group();
  if (stop_again_at_ && now() >= *stop_again_at_) {
    stop_again_at_.reset();
    for (const auto& member : members_) member.worker->order(SIGTERM, spec_.options.shutdown_timeout);
  }
  if (give_up_at_ && now() >= *give_up_at_) {
    give_up_at_.reset();
    for (auto& member : members_) {
      if (member.worker->is_gone()) continue;
      log::warn("rank {} (pid {}) does not end after SIGKILL: it hangs in the kernel and is left behind",
                member.worker->rank(), member.pid);
      member.worker->abandon();
      if (!member.has_ended) on_end(member, SIGKILL, SIGKILL);
    }
  }
}

void Gang::on_signals() {
  for (int number = 0; (number = spec_.signals.next()) != 0;) {
    is_told_to_end_ = is_told_to_end_ || (number != SIGWINCH && number != SIGUSR1 && number != SIGUSR2);
    if (number == SIGWINCH) {
      resize_terminals();
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      pass_on(number);
    } else if (is_stopping_) {
      kill();
    } else {
      result_.interrupted_by = number;
      log::note("{}: stopping {} ranks (once more to kill them)", signal_name(number), members_.size());
      stop(number == SIGHUP ? SIGTERM : number);
    }
  }
}

void Gang::resize_terminals() {
  for (auto& member : members_) {
    for (int stream = 0; stream < 2; ++stream) {
      winsize size{};
      if (channel_of(member.worker->rank(), stream) != Channel::kTerminal) continue;
      if (!read_size(stream == 0 ? STDOUT_FILENO : STDERR_FILENO, prefix_columns(), size)) continue;
      ::ioctl(member.worker->output(stream), TIOCSWINSZ, &size);
    }
  }
}

void Gang::on_watcher() {
  std::optional<FailureClaim> claim;
  if (watcher_->found() == KeyWatcher::Found::kKeys) {
    claim = parse_claim(spec_.meeting.store->try_get(kFailureKey).value_or(""));
  }
  watcher_.reset();
  if (claim && is_local(claim->rank)) return;  // its own end will tell
  result_.has_remote_failure = true;
  result_.claim = claim;
  if (!is_stopping_) stop_failed_group();
}

void Gang::on_control(Member& member) {
  while (const auto report = member.worker->read_report()) on_report(member, *report);
  if (!member.worker->is_gone()) return;
  // Nothing of the tree is alive, so what lies in the pipes is all there will ever be.
  close_streams(member);
  if (!member.has_ended) on_end(member, SIGKILL, 0);  // somebody killed the stub, and the worker died with it
}

void Gang::on_report(Member& member, const StubReport& report) {
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

void Gang::on_end(Member& member, int status, int signal_sent) {
  member.has_ended = true;
  const WorkerEnd end{member.worker->rank(), member.pid, status, signal_sent};
  result_.ends.push_back(end);
  if (!has_failed(end) || is_stopping_) return;
  if (leaves_by_request(end)) {
    // All ranks leave at one step, so the others follow.
    if (!stop_at_) stop_at_ = now() + spec_.options.shutdown_timeout;
  } else if (is_consequence(end)) {
    if (!stop_at_) stop_at_ = now() + kBlameTime;
  } else {
    publish(end);
    stop_failed_group();
  }
}

// Before the others are stopped: their messages can then point to it.
void Gang::publish(const WorkerEnd& end) {
  try {
    spec_.meeting.store->compare_set(kFailureKey, "",
                                     to_json({end.rank, host_name(), describe_status(end.wait_status)}));
  } catch (const Error& problem) {
    log::warn("the failure of rank {} was not published: {}", end.rank, problem.message());
  }
}

void Gang::pass_on(int signal) {
  for (const auto& member : members_) member.worker->order(signal, std::chrono::milliseconds(-1));
}

void Gang::stop_failed_group() {
  stop(SIGTERM);
  stop_again_at_ = now() + kSecondTermTime;
}

void Gang::stop(int signal) {
  is_stopping_ = true;
  stop_at_.reset();
  give_up_at_ = now() + spec_.options.shutdown_timeout + kKillTime;
  for (const auto& member : members_) member.worker->order(signal, spec_.options.shutdown_timeout);
}

void Gang::kill() {
  for (const auto& member : members_) member.worker->order(SIGKILL, std::chrono::milliseconds(0));
}

void Gang::read_output(Member& member, int stream, bool to_the_end) {
  char chunk[32 << 10];
  do {
    const int fd = member.worker->output(stream);
    const ssize_t count = fd < 0 ? 0 : ::read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {  // a terminal ends with EIO
      member.worker->close_output(stream);
      mux_.finish(member.worker->rank(), stream);
      return;
    }
    const std::string_view bytes(chunk, static_cast<std::size_t>(count));
    member.log->write(stream, bytes);
    mux_.feed(member.worker->rank(), stream, bytes);
    last_output_ = now();
  } while (to_the_end);
}

void Gang::close_streams(Member& member) {
  for (const int stream : {1, 0}) {  // stderr first, as in wait_for_event()
    read_output(member, stream, true);
    member.worker->close_output(stream);
    mux_.finish(member.worker->rank(), stream);
  }
}

}  // namespace lockstep::launch
