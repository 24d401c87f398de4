// SPDX-License-Identifier: Apache-2.0
#include "launch/stub.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "launch/hangs/process_tree.h"
#include "lockstep/base/awake_clock.h"

namespace lockstep::launch {
namespace {

// The clock is read this often, so that a grace period continues where it left off after the whole job was suspended.
constexpr auto kGraceLook = std::chrono::milliseconds(200);

void close_between(int first, int last) noexcept {
  if (first > last) return;
  if (::syscall(SYS_close_range, first, last, 0) == 0) return;
  for (int fd = first; fd <= std::min(last, 4096); ++fd) ::close(fd);
}

// Closes all descriptors from 3 up, except those in `kept`.
template <std::size_t N>
void close_all_but(int (&kept)[N]) noexcept {
  std::sort(kept, kept + N);
  int next = 3;
  for (const int fd : kept) {
    if (fd < next) continue;
    close_between(next, fd - 1);
    next = fd + 1;
  }
  close_between(next, INT_MAX);
}

void nap() noexcept {
  const timespec time{0, 1'000'000};
  ::nanosleep(&time, nullptr);
}

// Returns true for a signal that stays ignored across exec, as nohup requires. Other signals must end the worker, so
// they are reset: the agent or a shell's background job may ignore them.
bool stays_ignored(int number) noexcept {
  return number != SIGPIPE && number != SIGCHLD && number != SIGINT && number != SIGQUIT && number != SIGTERM;
}

void reset_signals() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN && stays_ignored(number)) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
}

class Stub {
 public:
  explicit Stub(const StubPlan& plan) noexcept : plan_(plan), control_(plan.control) {}

  void run() noexcept {
    if (!prepare()) return;
    if (!start_worker()) return;
    while (!is_over_) wait_for_event();
  }

 private:
  // Returns false if the agent is already gone, or if resources are exhausted; only the latter is reported.
  bool prepare() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    reset_signals();
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    // For kernels without pidfds. The signal is also sent when only the forking thread ends, so its handling checks
    // whether the agent is gone.
    ::prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    ::prctl(PR_SET_NAME, "lockstep-stub", 0, 0, 0);
    if (::getppid() != plan_.agent) return false;
    if (!keep_only_our_descriptors()) return report(StubEvent::kExecFailed, errno), false;
    if (!tree_.is_usable()) return report(StubEvent::kExecFailed, ENOMEM), false;
    sigset_t watched;
    ::sigemptyset(&watched);
    ::sigaddset(&watched, SIGCHLD);
    ::sigaddset(&watched, SIGUSR1);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) return report(StubEvent::kExecFailed, errno), false;
    return true;
  }

  // The pipes of other workers and the store's sockets must not stay open here. They are closed first, which makes room
  // for the copies. Returns false if there is still no room.
  bool keep_only_our_descriptors() noexcept {
    constexpr int kAboveTheWorkers = 10;
    int own[] = {plan_.input, plan_.output, plan_.errors, plan_.control, plan_.agent_pidfd, plan_.standby};
    close_all_but(own);
    const auto copy = [](int fd) { return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, kAboveTheWorkers); };
    int copies[] = {copy(plan_.input),   copy(plan_.output),      copy(plan_.errors),
                    copy(plan_.control), copy(plan_.agent_pidfd), copy(plan_.standby)};
    if (copies[0] < 0 || copies[1] < 0 || copies[2] < 0 || copies[3] < 0) return false;
    for (int fd = 0; fd < 3; ++fd) ::dup2(copies[fd], fd);
    control_ = copies[3];
    agent_ = copies[4];
    int kept[] = {control_, agent_, copies[5]};
    close_all_but(kept);
    if (copies[5] >= 0 && ::dup2(copies[5], kStandbyDescriptor) < 0) return false;
    if (copies[5] >= 0) ::close(copies[5]);
    return true;
  }

  bool start_worker() noexcept {
    int failure[2];
    if (::pipe2(failure, O_CLOEXEC) != 0) return report(StubEvent::kExecFailed, errno), false;
    const pid_t stub = ::getpid();
    worker_ = ::_Fork();
    if (worker_ < 0) return report(StubEvent::kExecFailed, errno), false;
    if (worker_ == 0) become_worker(stub, failure[1]);
    ::close(failure[1]);
    if (plan_.standby >= 0) ::close(kStandbyDescriptor);
    // The stub's own copies would keep the pipes open after the worker has ended.
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; ++fd) {
      if (::dup2(nothing, fd) < 0) ::close(fd);
    }
    int error = 0;
    ssize_t got = 0;
    do {
      got = ::read(failure[0], &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    ::close(failure[0]);
    if (got == static_cast<ssize_t>(sizeof error)) {
      ::waitpid(worker_, nullptr, 0);
      report(StubEvent::kExecFailed, error);
      return false;
    }
    worker_pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, worker_, 0));
    report(StubEvent::kStarted, worker_);
    return true;
  }

  [[noreturn]] void become_worker(pid_t stub, int failure) const noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != stub) ::_exit(127);
    ::setpgid(0, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(plan_.path, plan_.arguments, plan_.environment);
    if (errno == ENOEXEC) ::execve("/bin/sh", plan_.shell_arguments, plan_.environment);
    const int error = errno;
    (void)!::write(failure, &error, sizeof error);
    ::_exit(127);
  }

  void wait_for_event() noexcept {
    pollfd entries[4] = {{control_, POLLIN, 0}, {agent_, POLLIN, 0}, {worker_pidfd_, POLLIN, 0}, {signals_, POLLIN, 0}};
    int timeout = -1;
    if (kill_at_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - now());
      timeout = static_cast<int>(std::clamp<std::chrono::milliseconds>(left, {}, kGraceLook).count());
    }
    ::poll(entries, 4, timeout);
    signalfd_siginfo ignored;
    while (::read(signals_, &ignored, sizeof ignored) > 0) {
    }
    // Reaps first, so that a worker that ended on its own does not seem to have been ended by the order.
    reap();
    if (is_over_) return;
    const bool is_agent_gone = (entries[1].revents != 0) || ::getppid() != plan_.agent;
    if (is_agent_gone || (entries[0].revents != 0 && !obey()) || (kill_at_ && now() >= *kill_at_)) kill_all();
  }

  // Returns false if the agent has closed its end.
  bool obey() noexcept {
    StubOrder order;
    const ssize_t got = ::recv(control_, &order, sizeof order, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got != static_cast<ssize_t>(sizeof order)) return false;
    if (order.signal == SIGKILL) {
      kill_all();
      return true;
    }
    if (order.grace_ms < 0) {  // the signal is only passed on
      if (worker_ > 0) ::kill(worker_, order.signal);
      return true;
    }
    kill_stopped();
    if (worker_ > 0) {
      // Sends an interrupt to the whole process group, as a terminal does: shells rely on that.
      ::kill(order.signal == SIGINT ? -worker_ : worker_, order.signal);
      signal_sent_ = order.signal;
    }
    kill_by(now() + std::chrono::milliseconds(order.grace_ms));
    return true;
  }

  void kill_by(TimePoint time) noexcept { kill_at_ = kill_at_ ? std::min(*kill_at_, time) : time; }

  // Does not use AwakeClock, whose lock another thread may have held at the time of the fork.
  TimePoint now() noexcept { return awake_.at(std::chrono::steady_clock::now()); }

  // Kills stopped processes, which respond only to SIGKILL.
  void kill_stopped() noexcept {
    tree_.read();
    for (std::size_t i = 0; i < tree_.size(); ++i) {
      if (!tree_[i].is_descendant || tree_[i].state != 'T') continue;
      if (tree_.is(i, worker_)) signal_sent_ = SIGKILL;
      tree_.signal(i, SIGKILL);
    }
  }

  void signal_children(int number) noexcept {
    tree_.read();
    for (std::size_t i = 0; i < tree_.size(); ++i) {
      if (tree_[i].is_descendant && tree_[i].state != 'Z') tree_.signal(i, number);
    }
  }

  // Reaps ended processes. Processes left behind by an ended worker are asked to exit.
  void reap() noexcept {
    bool is_worker_dead_now = false;
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0) is_over_ = true;
      if (pid <= 0) break;
      if (pid != worker_) continue;
      is_worker_dead_now = true;
      report(StubEvent::kEnded, status);
      worker_ = 0;
      ::close(worker_pidfd_);
      worker_pidfd_ = -1;
    }
    if (is_worker_dead_now && !is_over_) {
      signal_children(SIGTERM);
      kill_stopped();
      kill_by(now() + std::chrono::milliseconds(plan_.leftover_grace_ms));
    }
  }

  // Kills until no descendant is left. The stub, as subreaper, becomes the parent of every orphan, so "no child" means
  // "no descendant".
  void kill_all() noexcept {
    while (!is_over_) {
      if (worker_ > 0) signal_sent_ = SIGKILL;
      bool is_any_alive = false;
      tree_.read();
      for (std::size_t i = 0; i < tree_.size(); ++i) {
        if (!tree_[i].is_descendant) continue;
        // This includes zombies: the first thread may have ended while other threads run.
        tree_.signal(i, SIGKILL);
        is_any_alive |= tree_[i].state != 'Z';
      }
      if (!is_any_alive && worker_ > 0) ::kill(-worker_, SIGKILL);  // without /proc, at least kill its group
      siginfo_t dead{};
      // Leaves ended processes to reap(). Waits only if a process was killed; if none was, a process was missed, so the
      // loop checks again.
      ::waitid(P_ALL, 0, &dead, WEXITED | WNOWAIT | (is_any_alive ? 0 : WNOHANG));
      reap();
      if (!is_any_alive) nap();
    }
  }

  void report(StubEvent event, int value) const noexcept {
    const StubReport message{event, value, signal_sent_};
    (void)!::send(control_, &message, sizeof message, MSG_NOSIGNAL);
  }

  const StubPlan& plan_;
  ProcessTree tree_;
  int control_;
  int agent_ = -1;
  int signals_ = -1;
  int worker_pidfd_ = -1;
  pid_t worker_ = 0;  // 0 once it has ended
  int signal_sent_ = 0;
  AwakeTime awake_{kGraceLook};
  std::optional<TimePoint> kill_at_ = {};  // none if it is not to be killed
  bool is_over_ = false;
};

}  // namespace

void run_stub(const StubPlan& plan) noexcept { Stub(plan).run(); }

}  // namespace lockstep::launch
