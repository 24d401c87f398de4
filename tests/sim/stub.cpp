// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "launch/stub.h"
#include "sim/files.h"
#include "sim/ranks.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

using launch::StubEvent;
using launch::StubOrder;
using launch::StubReport;

int number_of(const Process& process, const char* name) { return std::atoi(process.environment.at(name).c_str()); }

// Mimics src/launch/stub.cpp: it forwards signals, kills the rank after the grace period, and dies with its agent.
void run_stub(Process& rank, int control, int ended) {
  StubReport report{StubEvent::kStarted, rank.pid, 0};
  ::send(control, &report, sizeof report, MSG_NOSIGNAL);
  Nanos kill_at = kNever;
  int signal_sent = 0;
  int status = -1;
  for (;;) {
    pollfd entries[2] = {{control, POLLIN, 0}, {ended, POLLIN, 0}};
    const Nanos left = kill_at == kNever ? -1 : std::max<Nanos>(0, (kill_at - kernel()->now()) / kMilli + 1);
    ::poll(entries, 2, static_cast<int>(left));
    if (entries[1].revents != 0) {
      std::uint64_t value = 0;
      (void)!::read(ended, &value, sizeof value);
      status = static_cast<int>(value) - 1;
      break;
    }
    if (kernel()->now() >= kill_at) {
      signal_sent = SIGKILL;
      kill_at = kNever;
      kernel()->end_process(rank, SIGKILL);
    }
    if (entries[0].revents == 0) continue;
    StubOrder order;
    const ssize_t got = ::recv(control, &order, sizeof order, MSG_DONTWAIT);
    if (got == 0) kernel()->end_process(rank, SIGKILL);
    if (got != static_cast<ssize_t>(sizeof order)) continue;
    if (order.grace_ms >= 0) {
      signal_sent = order.signal;
      kill_at = std::min(kill_at, kernel()->now() + order.grace_ms * kMilli);
    }
    if (order.signal != SIGKILL && rank.on_signal) rank.on_signal(order.signal);
  }
  report = {StubEvent::kEnded, status, signal_sent};
  ::send(control, &report, sizeof report, MSG_NOSIGNAL);
}

}  // namespace

pid_t start_stub(const StubStart& start) {
  Kernel& machine = *kernel();
  Process& agent = *machine.current()->process;
  std::map<std::string, std::string> environment = agent.environment;
  for (const std::string& entry : start.environment) {
    const auto equals = entry.find('=');
    environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  const std::string name = fmt::format("{}/rank{}", agent.host->name, environment.at("RANK"));
  Process& process = machine.spawn(*agent.host, name, environment);
  Process& stub = machine.spawn(*agent.host, name + "-stub", {});
  const int ended = ::eventfd(0, EFD_CLOEXEC);
  files().give(ended, stub);
  files().give(start.control, stub);
  files().give(start.output, process);
  files().give(start.errors, process);
  Rank& rank = world().add_rank({.process = &process,
                                 .agent = &agent,
                                 .rank = number_of(process, "RANK"),
                                 .world_size = number_of(process, "WORLD_SIZE"),
                                 .round = number_of(process, "TORCHELASTIC_RESTART_COUNT"),
                                 .served_by = world().begun_by(agent, environment.at("LOCKSTEP_STORE_PREFIX"))});
  process.on_signal = [&rank](int) {
    if (!std::exchange(rank.is_told_to_leave, true)) world().tell(rank.process->name, "is told to leave");
  };
  process.on_end = [&rank, ended](int status) {
    world().rank_ended(rank, status);
    if (const auto file = files().find(ended)) {
      const std::uint64_t value = static_cast<std::uint64_t>(status) + 1;
      file->write(&value, sizeof value);
    }
  };
  machine.start(process, [&rank, &process, &machine] {
    const int code = run_rank(rank);
    machine.end_process(process, code << 8);
  });
  machine.start(stub, [&process, &stub, &machine, control = start.control, ended] {
    run_stub(process, control, ended);
    machine.end_process(stub, 0);
  });
  return stub.pid;
}

}  // namespace lockstep::sim
