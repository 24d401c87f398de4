// SPDX-License-Identifier: Apache-2.0
// launch::Worker inside a world: the rank and its stub are simulated processes. The agent's side of the socket works as
// in src/launch/worker.cpp, which is not linked into this program.
#include "launch/worker.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "sim/ranks.h"

namespace lockstep::launch {

bool read_size(int, int, winsize&) noexcept { return false; }

Worker::Worker(const WorkerSpec& spec) : rank_(spec.rank) {
  int control[2];
  int output[2];
  int errors[2];
  ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
  ::pipe2(output, O_CLOEXEC);
  ::pipe2(errors, O_CLOEXEC);
  control_.reset(control[0]);
  streams_[0].reset(output[0]);
  streams_[1].reset(errors[0]);
  for (auto& stream : streams_) ::fcntl(stream.get(), F_SETFL, O_NONBLOCK);
  stub_ = sim::start_stub(
      {.environment = spec.environment, .control = control[1], .output = output[1], .errors = errors[1]});
}

Worker::~Worker() {
  if (is_gone()) return;
  order(SIGKILL, std::chrono::milliseconds(0));
  control_.reset();
  reap(std::chrono::seconds(15));
}

void Worker::reap(std::chrono::milliseconds patience) const noexcept {
  for (auto waited = std::chrono::milliseconds(0); waited < patience; waited += std::chrono::milliseconds(1)) {
    if (sim::kernel()->find(stub_) == nullptr) return;
    const timespec nap{0, 1'000'000};
    ::nanosleep(&nap, nullptr);
  }
}

std::optional<StubReport> Worker::read_report() {
  StubReport report;
  ssize_t got = 0;
  do {
    got = ::recv(control_.get(), &report, sizeof report, MSG_DONTWAIT);
  } while (got < 0 && errno == ECONNRESET);
  if (got == static_cast<ssize_t>(sizeof report)) return report;
  if (got < 0 && errno == EAGAIN) return std::nullopt;
  reap(std::chrono::seconds(15));
  control_.reset();
  return std::nullopt;
}

void Worker::order(int signal, std::chrono::milliseconds grace) const noexcept {
  const StubOrder message{signal, static_cast<std::int32_t>(grace.count())};
  if (!is_gone()) (void)!::send(control_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool Worker::take_over(int, const std::vector<std::string>&) noexcept { return false; }

void Worker::abandon() noexcept { control_.reset(); }

}  // namespace lockstep::launch
