// SPDX-License-Identifier: Apache-2.0
#include "launch/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "lockstep/base/resources.h"
#include "lockstep/base/standby.h"

namespace lockstep::launch {
namespace {

// The time limit for a standby to read part of its environment, in case the pipe cannot hold all of it.
constexpr int kTakeTime = 500;  // ms
// The time limit for a stub that has closed its socket to exit.
constexpr auto kPatience = std::chrono::seconds(15);

struct Ends {
  UniqueFd reading;
  UniqueFd writing;
};

Ends make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_cannot("start a worker: pipe", errno);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Creates a terminal for the worker that passes its bytes through unchanged.
Ends make_terminal(int terminal, int prefix_columns) {
  UniqueFd main(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[64];
  if (!main.valid() || ::grantpt(main.get()) != 0 || ::unlockpt(main.get()) != 0 ||
      ::ptsname_r(main.get(), name, sizeof name) != 0) {
    return make_pipe();
  }
  UniqueFd side(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!side.valid()) return make_pipe();
  termios modes{};
  ::tcgetattr(side.get(), &modes);
  modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  modes.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(side.get(), TCSANOW, &modes);
  winsize size{};
  if (read_size(terminal, prefix_columns, size)) ::ioctl(main.get(), TIOCSWINSZ, &size);
  return {std::move(main), std::move(side)};
}

Ends make_channel(Channel kind, int terminal, int prefix_columns) {
  return kind == Channel::kTerminal ? make_terminal(terminal, prefix_columns) : make_pipe();
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const auto& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> shell_command(const WorkerSpec& spec) {
  std::vector<std::string> command{"/bin/sh", spec.path};
  command.insert(command.end(), spec.arguments.begin() + 1, spec.arguments.end());
  return command;
}

}  // namespace

bool read_size(int terminal, int prefix_columns, winsize& size) noexcept {
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0) return false;
  if (size.ws_col > prefix_columns) size.ws_col = static_cast<unsigned short>(size.ws_col - prefix_columns);
  return true;
}

Worker::Worker(const WorkerSpec& spec) : rank_(spec.rank) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    throw_cannot("start a worker: socketpair", errno);
  control_.reset(sockets[0]);
  const UniqueFd their_control(sockets[1]);
  Ends output = make_channel(spec.output, STDOUT_FILENO, spec.prefix_columns);
  Ends errors = make_channel(spec.errors, STDERR_FILENO, spec.prefix_columns);
  const UniqueFd input(spec.input >= 0 ? ::fcntl(spec.input, F_DUPFD_CLOEXEC, 3)
                                       : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd nothing(input.valid() ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Ends standby = spec.is_standby ? make_pipe() : Ends{};
  const UniqueFd agent(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));

  const auto shell = shell_command(spec);
  const auto arguments = pointers(spec.arguments);
  const auto shell_arguments = pointers(shell);
  const auto environment = pointers(spec.environment);
  const StubPlan plan{.path = spec.path.c_str(),
                      .arguments = arguments.data(),
                      .shell_arguments = shell_arguments.data(),
                      .environment = environment.data(),
                      .input = input.valid() ? input.get() : nothing.get(),
                      .output = output.writing.get(),
                      .errors = errors.writing.get(),
                      .standby = standby.reading.get(),
                      .control = their_control.get(),
                      .agent_pidfd = agent.get(),
                      .agent = ::getpid(),
                      .leftover_grace_ms = static_cast<int>(spec.leftover_grace.count())};
  // _Fork() instead of fork(): handlers that libraries such as OpenBLAS register for fork() take locks.
  stub_ = ::_Fork();
  if (stub_ < 0) throw_cannot("start a worker: fork", errno);
  if (stub_ == 0) {
    run_stub(plan);
    ::_exit(0);
  }
  standby_ = std::move(standby.writing);  // the stub has the reading end
  streams_[0] = std::move(output.reading);
  streams_[1] = std::move(errors.reading);
  for (auto& stream : streams_) ::fcntl(stream.get(), F_SETFL, O_NONBLOCK);
}

Worker::~Worker() {
  if (is_gone()) return;
  order(SIGKILL, std::chrono::milliseconds(0));
  control_.reset();  // also informs the stub
  reap(kPatience);
}

// Waits for the stub. A stub that does not exit in time is killed; a stub that hangs in the kernel is abandoned.
void Worker::reap(std::chrono::milliseconds patience) const noexcept {
  const auto leaves_within = [this](std::chrono::milliseconds time) {
    for (auto waited = std::chrono::milliseconds(0);; waited += std::chrono::milliseconds(1)) {
      const pid_t reaped = ::waitpid(stub_, nullptr, WNOHANG);
      if (reaped == stub_ || (reaped < 0 && errno != EINTR)) return true;
      if (waited >= time) return false;
      const timespec nap{0, 1'000'000};
      ::nanosleep(&nap, nullptr);
    }
  };
  if (leaves_within(patience)) return;
  ::kill(stub_, SIGKILL);
  leaves_within(std::chrono::seconds(1));
}

std::optional<StubReport> Worker::read_report() {
  StubReport report;
  ssize_t got = 0;
  do {
    // ECONNRESET occurs once, before the remaining reports: the stub exited without reading an order.
    got = ::recv(control_.get(), &report, sizeof report, MSG_DONTWAIT);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got == static_cast<ssize_t>(sizeof report)) return report;
  if (got < 0 && errno == EAGAIN) return std::nullopt;
  reap(kPatience);
  control_.reset();
  return std::nullopt;
}

void Worker::order(int signal, std::chrono::milliseconds grace) const noexcept {
  const StubOrder message{signal, static_cast<std::int32_t>(grace.count())};
  if (!is_gone()) (void)!::send(control_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool Worker::take_over(int rank, const std::vector<std::string>& environment) noexcept {
  rank_ = rank;
  const std::string message = standby::to_message(environment);
  ::fcntl(standby_.get(), F_SETFL, O_NONBLOCK);
  pollfd room{standby_.get(), POLLOUT, 0};
  std::size_t sent = 0;
  while (sent < message.size()) {
    const ssize_t count = ::write(standby_.get(), message.data() + sent, message.size() - sent);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      break;  // the worker has ended
    } else if (errno == EAGAIN && ::poll(&room, 1, kTakeTime) <= 0) {
      break;
    }
  }
  standby_.reset();
  return sent == message.size();
}

void Worker::abandon() noexcept { control_.reset(); }

}  // namespace lockstep::launch
