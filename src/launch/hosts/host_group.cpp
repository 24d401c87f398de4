// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts/host_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <utility>

#include "launch/event_loop.h"
#include "launch/failure.h"
#include "launch/hosts/host_command.h"
#include "launch/limits.h"
#include "launch/nodes/addresses.h"
#include "launch/program.h"
#include "launch/worker_env.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {
namespace {

// How long the launchers have to inform each other of how the run ended.
constexpr auto kLeaveTime = std::chrono::seconds(20);
// How long launchers that have met have to find out which of them failed, and to exit on their own.
constexpr auto kFollowTime = std::chrono::seconds(5);
// How long a slow reader of the output has once this process has been asked to end.
constexpr auto kReaderTime = std::chrono::seconds(2);

TimePoint awake_now() { return AwakeClock::instance().now(); }

struct Pipe {
  UniqueFd reading;
  UniqueFd writing;
};

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_cannot("start ssh: pipe", errno);
  ::fcntl(fds[1], F_SETFL, O_NONBLOCK);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<std::string> names_of(const HostsOptions& options) {
  std::vector<std::string> names;
  for (const HostLauncher& launcher : options.launchers) names.push_back(address_of(launcher.host));
  return names;
}

// Writes an order. The pipe has room for all later orders, since a signal takes only a few bytes.
void write_line(int fd, const std::string& line) {
  const std::string bytes = line + "\n";
  (void)!::write(fd, bytes.data(), bytes.size());
}

// Writes the first orders. The launcher reads them later, so they must fit in the pipe.
void write_first_orders(int fd, const std::string& orders) {
  constexpr int kRoomForSignals = 8 << 10;
  (void)::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(orders.size()) + kRoomForSignals);
  if (::write(fd, orders.data(), orders.size()) == static_cast<ssize_t>(orders.size())) return;
  throw UsageError(fmt::format("the variables sent to each host total {}, but a pipe is limited to {}",
                               text::bytes(orders.size()), text::bytes(::fcntl(fd, F_GETPIPE_SZ))),
                   "unset the variables that no rank needs: lockstep inspect env lists them");
}

int timeout_ms(std::initializer_list<std::optional<TimePoint>> times) {
  TimePoint next = TimePoint::max();
  for (const auto& time : times) next = std::min(next, time.value_or(next));
  if (next == TimePoint::max()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(awake_slice(next - awake_now())).count());
}

std::string text_of_loss(const HostsOptions& options, const HostLauncher& launcher, int wait_status) {
  const int code = exit_code(wait_status);
  const std::string host = address_of(launcher.host);
  if (loss_of(wait_status) == HostLoss::kMissing) {
    return fmt::format(
        "host {} cannot start {} (exit code {})\n  next    install the same Lockstep there, in the same folder", host,
        launcher.words[0], code);
  }
  const std::string end =
      code > 128 && code < 255 ? fmt::format("signal {} ended", code - 128) : fmt::format("exit code {} of", code);
  return fmt::format(
      "host {} could not be reached, or was lost ({} ssh)\n  next    make sure that '{} {} true' works without a "
      "password",
      host, end, options.ssh[0], launcher.host.name);
}

}  // namespace

HostLoss loss_of(int wait_status) {
  constexpr int kSshFailed = 255;
  if (WIFSIGNALED(wait_status) || WEXITSTATUS(wait_status) == kSshFailed) return HostLoss::kUnreached;
  const bool is_missing = WEXITSTATUS(wait_status) == 126 || WEXITSTATUS(wait_status) == 127;
  return is_missing ? HostLoss::kMissing : HostLoss::kNone;
}

HostGroup::HostGroup(const HostsOptions& options)
    : options_(options),
      signals_(options.signals),
      lines_(names_of(options), [this](int stream, std::string_view line) { console_.put(stream, line); }) {
  for (const HostLauncher& launcher : options.launchers) start(launcher);
}

void HostGroup::start(const HostLauncher& launcher) {
  const auto words = start_command(options_, launcher, is_own(address_of(launcher.host)));
  Pipe orders = make_pipe();
  Member member;
  member.worker = std::make_unique<Worker>(WorkerSpec{.rank = static_cast<int>(members_.size()),
                                                      .path = find_program(words[0]),
                                                      .arguments = words,
                                                      .environment = own_environment(),
                                                      .input = orders.reading.get()});
  member.orders = std::move(orders.writing);
  write_first_orders(member.orders.get(), first_orders(options_));
  members_.push_back(std::move(member));
}

int HostGroup::run() {
  while (count_left() > 0) wait_for_event();
  for (int host = 0; host < static_cast<int>(members_.size()); ++host) {
    for (const int stream : {0, 1}) lines_.finish(host, stream);
  }
  show_the_rest();
  const int code = exit_code();
  // The remaining launchers have reported which one is to blame, unless they never met.
  if (code == static_cast<int>(ExitCode::kPeer) && !first_failure_) print_to(stderr, "lockstep: {}\n", *loss_);
  return code;
}

// Shows the rest of the output. A pager that is not reading must not delay a signal.
void HostGroup::show_the_rest() {
  // If a signal arrived before the launchers were gone, the reader gets a moment; if one arrives now, it gets none.
  if (std::exchange(is_asked_to_end_, false)) drop_at_ = awake_now() + kReaderTime;
  const auto is_late = [this] { return drop_at_ && awake_now() >= *drop_at_; };
  while (console_.waiting_fd() >= 0 && !is_asked_to_end_ && !is_late()) wait_for_event();
  console_.drop();
}

int HostGroup::count_left() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), [](const Member& member) { return !member.worker->is_gone(); }));
}

int HostGroup::exit_code() const {
  if (end_signal_ != 0) return 128 + end_signal_;
  const int all = static_cast<int>(members_.size());
  // Of a range of hosts, one may leave: if enough of the others complete the job, its own end is no failure.
  if (options_.min_hosts < all && completed_ >= options_.min_hosts) return 0;
  if (first_failure_) return *first_failure_;
  return all - lost_ >= options_.min_hosts ? 0 : static_cast<int>(ExitCode::kPeer);
}

void HostGroup::wait_for_event() {
  EventLoop loop;
  loop.add(console_.waiting_fd(), POLLOUT, [this] { console_.write_some(); });
  for (int host = 0; host < static_cast<int>(members_.size()); ++host) {
    const Worker& worker = *members_[static_cast<std::size_t>(host)].worker;
    for (const int stream : {0, 1}) {
      loop.add(console_.is_full() ? -1 : worker.output(stream), POLLIN, [=, this] { read(host, stream); });
    }
    loop.add(worker.control(), POLLIN, [=, this] { on_control(host); });
  }
  loop.add(signals_.fd(), POLLIN, [this] { on_signals(); });
  loop.turn(timeout_ms({end_at_, kill_at_, drop_at_}));
  on_time(awake_now());
}

void HostGroup::read(int host, int stream) {
  Worker& worker = *members_[static_cast<std::size_t>(host)].worker;
  char chunk[32 << 10];
  for (;;) {
    const ssize_t count = worker.output(stream) < 0 ? 0 : ::read(worker.output(stream), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return worker.close_output(stream);
    lines_.feed(host, stream, {chunk, static_cast<std::size_t>(count)});
    // If the launcher is gone, its pipes hold only the last bytes.
    if (console_.is_full() && !worker.is_gone()) return;
  }
}

void HostGroup::on_control(int host) {
  Member& member = members_[static_cast<std::size_t>(host)];
  while (const auto report = member.worker->read_report()) {
    if (report->event == StubEvent::kStarted) continue;
    for (const int stream : {0, 1}) read(host, stream);
    member.orders.reset();
    member.has_ended = true;
    const bool has_run = report->event == StubEvent::kEnded;
    on_end(host, has_run ? report->value : W_EXITCODE(127, 0));
  }
  if (!member.worker->is_gone()) return;
  for (const int stream : {0, 1}) read(host, stream);
  if (!member.has_ended) {  // its stub was killed
    member.has_ended = true;
    on_end(host, SIGKILL);
  }
}

void HostGroup::on_end(int host, int wait_status) {
  if (wait_status == 0) ++completed_;
  if (wait_status == 0 || kill_at_) return;  // the launcher succeeded or was asked to stop
  const HostLoss loss = loss_of(wait_status);
  const bool is_lost = loss != HostLoss::kNone;
  const HostLauncher& launcher = options_.launchers[static_cast<std::size_t>(host)];
  if (is_lost) ++lost_;
  if (is_lost && !loss_) loss_ = text_of_loss(options_, launcher, wait_status);
  if (is_lost) log::warn("{}", text_of_loss(options_, launcher, wait_status));
  if (!is_lost && !first_failure_) first_failure_ = launch::exit_code(wait_status);
  // If a launcher failed before it met the others, they would wait for it.
  const int all = static_cast<int>(members_.size());
  const bool others_end = is_lost ? all - lost_ < options_.min_hosts : options_.min_hosts == all;
  if (others_end && !end_at_)
    end_at_ = awake_now() + (loss == HostLoss::kMissing ? TimePoint::duration{} : kFollowTime);
}

void HostGroup::on_signals() {
  for (int number = 0; (number = signals_.next()) != 0;) {
    if (number == SIGWINCH) continue;
    send(number);
    if (number == SIGUSR1 || number == SIGUSR2) continue;
    is_asked_to_end_ = true;
    // A second signal ends the grace period.
    if (end_signal_ != 0) kill_at_ = awake_now();
    if (end_signal_ == 0) kill_at_ = awake_now() + options_.shutdown_timeout + kLeaveTime;
    end_signal_ = end_signal_ == 0 ? number : end_signal_;
  }
}

void HostGroup::send(int number) {
  const char* name = ::sigabbrev_np(number);
  for (const Member& member : members_) {
    if (name != nullptr && member.orders.valid()) write_line(member.orders.get(), name);
  }
}

void HostGroup::end_all(TimePoint now) {
  send(SIGTERM);
  kill_at_ = std::min(kill_at_.value_or(TimePoint::max()), now + options_.shutdown_timeout + kLeaveTime);
}

void HostGroup::on_time(TimePoint now) {
  if (end_at_ && now >= *end_at_) {
    end_at_ = std::nullopt;
    if (!kill_at_) end_all(now);
  }
  if (!kill_at_ || now < *kill_at_) return;
  for (const Member& member : members_) member.worker->order(SIGKILL, std::chrono::milliseconds(0));
  kill_at_ = now + kLeaveTime;
}

}  // namespace lockstep::launch

namespace lockstep {

int run_hosts(const HostsOptions& options) {
  for (const HostLauncher& launcher : options.launchers) {
    if (!launch::is_own(address_of(launcher.host))) (void)launch::find_program(options.ssh[0]);
  }
  launch::raise_file_limit_for_hosts(options.launchers.size());
  return launch::HostGroup(options).run();
}

}  // namespace lockstep
