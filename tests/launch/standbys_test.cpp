// SPDX-License-Identifier: Apache-2.0
#include "launch/standbys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launch/hangs/process_state.h"
#include "launch/stub.h"
#include "launch/worker.h"
#include "lockstep/base/standby.h"
#include "support/process.h"

namespace lockstep::launch {
namespace standbys_test {

using std::chrono::seconds;

const TimePoint kStart = TimePoint() + seconds(1000);

AgentOptions restarting(int processes = 1) { return {.processes = processes, .max_restarts = 1}; }

// A standby that is a shell script: it reads from its descriptor, like a Lockstep program before main.
WorkerSpec script(const std::string& text) {
  return {.path = "/bin/sh", .arguments = {"sh", "-c", text}, .environment = {"PATH=/usr/bin:/bin"}};
}

std::string output_of(Worker& worker) {
  std::string text;
  const auto has_ended = [&] {
    char bytes[256];
    ssize_t count = 0;
    while ((count = ::read(worker.output(0), bytes, sizeof bytes)) > 0) text.append(bytes, static_cast<size_t>(count));
    return count == 0;
  };
  EXPECT_TRUE(test::eventually(has_ended));
  return text;
}

TEST(Standbys, AreNotWantedWhereRanksNeverStartAgain) {
  for (AgentOptions options : {AgentOptions{}, AgentOptions{.max_restarts = 3, .use_standby = false}}) {
    Standbys standbys(options);
    standbys.begin_round(kStart);
    EXPECT_EQ(standbys.due(), TimePoint::max());
  }
  Standbys of_a_range({.nodes = 4, .min_nodes = 2});
  of_a_range.begin_round(kStart);
  EXPECT_NE(of_a_range.due(), TimePoint::max());
}

TEST(Standbys, StartSomeSecondsAfterTheRanksOnceThatIsPossible) {
  Standbys standbys(restarting());
  standbys.begin_round(kStart);
  EXPECT_EQ(standbys.due(), kStart + seconds(10));
  const auto never = [](int) -> WorkerSpec { throw std::logic_error("nothing is to be started"); };
  standbys.start(kStart + seconds(10), false, never);
  EXPECT_EQ(standbys.due(), kStart + seconds(30)) << "it looks again after twice the time";
  EXPECT_FALSE(standbys.take(0));
  standbys.start(kStart + seconds(30), true, [](int) { return script("read x <&3"); });
  EXPECT_EQ(standbys.due(), TimePoint::max());
  EXPECT_TRUE(standbys.take(0));
  EXPECT_FALSE(standbys.take(0)) << "it was given away";
}

TEST(Standbys, GetTheirEnvironmentWhenTheyTakeOver) {
  Standbys standbys(restarting(2));
  standbys.begin_round(kStart);
  standbys.start(kStart, true, [](int) { return script("tr '\\0' ' ' <&3"); });
  std::optional<Standby> standby = standbys.take(1);
  ASSERT_TRUE(standby);
  EXPECT_TRUE(standby->worker->take_over(7, {"RANK=7", "NAME=two words"}));
  EXPECT_EQ(standby->worker->rank(), 7);
  EXPECT_EQ(output_of(*standby->worker), "RANK=7 NAME=two words  ");
}

// An environment too large to fit in a pipe.
std::vector<std::string> long_environment() { return std::vector<std::string>(40, "A=" + std::string(64 << 10, 'x')); }

TEST(Standbys, ThatDoNotReadHoldUpNobody) {
  Standbys standbys(restarting());
  standbys.begin_round(kStart);
  standbys.start(kStart, true, [](int) { return script("sleep 1000"); });
  std::optional<Standby> standby = standbys.take(0);
  ASSERT_TRUE(standby);
  EXPECT_FALSE(standby->worker->take_over(0, long_environment()));
}

TEST(Standbys, ThatReadTakeALongEnvironment) {
  Standbys standbys(restarting());
  standbys.begin_round(kStart);
  standbys.start(kStart, true, [](int) { return script("wc -c <&3"); });
  std::optional<Standby> standby = standbys.take(0);
  ASSERT_TRUE(standby);
  EXPECT_TRUE(standby->worker->take_over(0, long_environment()));
  EXPECT_EQ(std::stoi(output_of(*standby->worker)), 40 * ((64 << 10) + 3) + 1);
}

TEST(Standbys, ThatAreStoppedAreNotTaken) {
  const auto file = std::filesystem::path(::testing::TempDir()) / fmt::format("standby-{}", ::getpid());
  Standbys standbys(restarting());
  standbys.begin_round(kStart);
  standbys.start(kStart, true, [&](int) { return script(fmt::format("echo $$ > {}; kill -STOP $$", file.string())); });
  const auto is_stopped = [&] {
    pid_t pid = 0;
    std::ifstream(file) >> pid;
    const auto process = pid > 0 ? read_process(pid) : std::nullopt;
    return process && process->state == 'T';
  };
  EXPECT_TRUE(test::eventually(is_stopped));
  EXPECT_FALSE(standbys.take(0));
  std::filesystem::remove(file);
}

TEST(Standbys, ThatCannotBeStartedAreNotTaken) {
  Standbys standbys(restarting());
  standbys.begin_round(kStart);
  standbys.start(kStart, true, [](int) {
    WorkerSpec missing = script("");
    missing.path = "/no/such/program";
    return missing;
  });
  EXPECT_FALSE(standbys.take(0));
}

TEST(Standbys, AreOnlyForAProgramThatSaysItsOwnProcessId) {
  const auto store = make_local_store();
  const RunningRank rank{.rank = 0, .pid = ::getpid()};
  EXPECT_FALSE(can_have_standbys({rank}, *store, "/proc/self/exe")) << "it has said nothing";
  store->set("lockstep/standby/0", std::to_string(::getpid()));
  EXPECT_TRUE(can_have_standbys({rank}, *store, "/proc/self/exe"));
  EXPECT_FALSE(can_have_standbys({rank}, *store, "/bin/sh")) << "a script around it would run again";
  EXPECT_FALSE(can_have_standbys({{.rank = 0, .pid = 1}}, *store, "/proc/self/exe"));
}

std::optional<StubReport> next_report(Worker& worker) {
  std::optional<StubReport> report;
  EXPECT_TRUE(test::eventually([&] { return (report = worker.read_report()) || worker.is_gone(); }));
  return report;
}

pid_t parent_of(pid_t pid) {
  std::string number, name, state;
  pid_t parent = 0;
  std::ifstream(fmt::format("/proc/{}/stat", pid)) >> number >> name >> state >> parent;
  return parent;
}

TEST(Worker, ThatEndedWhileAnOrderCameIsReportedWithItsOwnEnd) {
  int input[2];
  ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
  const UniqueFd reading(input[0]);
  UniqueFd writing(input[1]);
  WorkerSpec spec = script("read x; exit 7");
  spec.input = reading.get();
  Worker worker(spec);
  const auto started = next_report(worker);
  ASSERT_TRUE(started && started->event == StubEvent::kStarted);
  const pid_t stub = parent_of(started->value);
  ::kill(stub, SIGSTOP);
  writing.reset();
  EXPECT_TRUE(test::eventually([&] { return read_process(started->value)->state == 'Z'; }));
  worker.order(SIGTERM, seconds(1));
  ::kill(stub, SIGCONT);
  const auto ended = next_report(worker);
  ASSERT_TRUE(ended && ended->event == StubEvent::kEnded);
  EXPECT_EQ(WEXITSTATUS(ended->value), 7);
  EXPECT_EQ(ended->signal_sent, 0);
}

TEST(Standby, ReadsAnyEnvironmentBack) { EXPECT_EQ(standby::to_message({"A=1", "B="}), std::string("A=1\0B=\0\0", 8)); }

}  // namespace standbys_test
}  // namespace lockstep::launch
