// SPDX-License-Identifier: Apache-2.0
// A step's time by activity, and the resources that the process uses during the step.
#include "train/step/step_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <latch>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/fault.h"
#include "train/report/process_counters.h"

namespace lockstep::train {
namespace step_clock_test {

using trace::Span;
using view::StepPart;

/// Uses this much CPU time.
void compute_for_ms(int ms) {
  const auto used = [] {
    timespec now{};
    (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  };
  for (const double end = used() + ms; used() < end;) {
  }
}

double ms_of(const ClockReading& reading, StepPart part) { return 1e3 * reading.parts[static_cast<std::size_t>(part)]; }

TEST(StepClock, CountsASpanWithoutThoseInsideIt) {
  StepClock clock(1);
  {
    const Span backward({.name = "backward"});
    compute_for_ms(2);
    const Span waiting({.name = "DistributedDataParallel::end_backward"});
    compute_for_ms(6);
  }
  const ClockReading reading = clock.take();
  EXPECT_GE(ms_of(reading, StepPart::kBackward), 2);
  EXPECT_GE(ms_of(reading, StepPart::kExposed), 6);
  EXPECT_LT(1e3 * reading.compute_cpu, 6);  // waiting does not count
  EXPECT_GE(1e3 * reading.compute_cpu, 1.9);
}

TEST(StepClock, CountsWhatAnEvaluationDoesAsTheEvaluation) {
  StepClock clock(1);
  {
    const Span evaluation({.name = "evaluate"});
    const Span next({.name = "DataLoader::next"});
    compute_for_ms(2);
  }
  const ClockReading reading = clock.take();
  EXPECT_GE(ms_of(reading, StepPart::kEvaluate), 2);
  EXPECT_EQ(ms_of(reading, StepPart::kData), 0);
}

TEST(StepClock, LeavesNoTimeOutAndCountsNoneTwice) {
  StepClock clock(1);
  (void)clock.take();
  for (const char* name : {"DataLoader::next", "forward", "loss", "optimizer", "save", "unknown"}) {
    const Span span({.name = name});
    compute_for_ms(1);
  }
  const ClockReading reading = clock.take();
  EXPECT_NEAR(std::accumulate(reading.parts.begin(), reading.parts.end(), 0.0), reading.seconds, 1e-9);
  EXPECT_GE(ms_of(reading, StepPart::kForward), 2);
  EXPECT_GE(ms_of(reading, StepPart::kOther), 1);
  const ClockReading next = clock.take();
  EXPECT_EQ(ms_of(next, StepPart::kForward), 0);
}

TEST(StepClock, CountsReplicasThatTakeTurnsAsOne) {
  StepClock clock(2);
  (void)clock.take();
  const Span first({.name = "backward"});
  clock.turn_to(1);
  std::thread other([&] {
    const Span span({.name = "forward"});
    compute_for_ms(4);
    clock.turn_to(0);  // as happens at the end of backward
  });
  other.join();
  const ClockReading reading = clock.take();
  EXPECT_GE(ms_of(reading, StepPart::kForward), 4);
  // The other replica's 4 ms do not count towards this one.
  EXPECT_LE(ms_of(reading, StepPart::kBackward), 1e3 * reading.seconds - 4);
  EXPECT_GE(1e3 * reading.compute_cpu, 3.9);
  EXPECT_EQ(reading.training_threads.size(), 2U);
}

TEST(StepClock, AddsUpWhatLoaderThreadsDo) {
  StepClock clock(1);
  std::thread([] { fault::in_section("the data set", [] { compute_for_ms(3); }); }).join();
  const ClockReading reading = clock.take();
  EXPECT_GE(1e3 * reading.loading, 3);
  EXPECT_GE(1e3 * reading.loading_cpu, 3);
  EXPECT_EQ(reading.loading_threads.size(), 1U);
  EXPECT_EQ(reading.training_threads.size(), 1U);
}

bool is_alive(int thread) { return std::filesystem::exists("/proc/self/task/" + std::to_string(thread)); }

TEST(StepClock, ForgetsLoaderThreadsThatHaveEnded) {
  StepClock clock(1);
  for (int i = 0; i < 100; ++i) std::thread([] { const Span span({.name = "the data set"}); }).join();
  const std::vector<int> ended = clock.take().loading_threads;
  EXPECT_EQ(ended.size(), 100U);
  // A thread that was joined may still be in /proc for a moment.
  while (std::any_of(ended.begin(), ended.end(), is_alive)) std::this_thread::yield();
  (void)clock.take();
  EXPECT_TRUE(clock.take().loading_threads.empty());
}

TEST(StepClock, StillListsALoaderThreadThatRuns) {
  StepClock clock(1);
  std::latch loaded(1);
  std::latch over(1);
  std::thread loader([&] {
    { const Span span({.name = "the data set"}); }
    loaded.count_down();
    over.wait();
  });
  loaded.wait();
  (void)clock.take();
  EXPECT_EQ(clock.take().loading_threads.size(), 1U);
  over.count_down();
  loader.join();
}

bool is_sink(const trace::Sink& clock) {
  const trace::Sinks all = trace::sinks();
  return std::find(all.begin(), all.end(), &clock) != all.end();
}

TEST(StepClock, TakesTheEndOfASpanThatOutlivesTheRun) {
  std::latch begun(1);
  std::latch over(1);
  std::optional<RunClock> run(std::in_place, 1);
  StepClock& clock = run->clock();
  EXPECT_TRUE(is_sink(clock));
  std::thread left_behind([&] {
    const Span span({.name = "the data set"});
    begun.count_down();
    over.wait();
    compute_for_ms(2);
  });
  begun.wait();
  run.reset();
  EXPECT_FALSE(is_sink(clock));
  over.count_down();
  left_behind.join();
  EXPECT_GE(1e3 * clock.take().loading, 2);
}

TEST(StepClock, KeepsAFewStretchesOfAnyNumberOfSteps) {
  StepClock clock(1);
  for (int step = 1; step <= 1000; ++step) {
    fault::note_step(step);
    const Span span({.name = "forward"});
  }
  fault::note_step(-1);
  const ClockReading reading = clock.take();
  EXPECT_EQ(reading.steps, 1000);
  EXPECT_LE(reading.stretches.size(), 16U);
  EXPECT_GE(reading.stretches.size(), 8U);
  std::int64_t next = 1;
  double compute = 0;
  for (const view::Stretch& stretch : reading.stretches) {
    EXPECT_EQ(stretch.first_step, next);
    next += stretch.steps;
    compute += stretch.compute;
  }
  EXPECT_EQ(next, 1001);
  EXPECT_NEAR(1e3 * compute, ms_of(reading, StepPart::kForward), 1e-6);
}

TEST(ProcessCounters, ReadWhatTheKernelCounts) {
  const ProcessCounters before = read_counters();
  compute_for_ms(5);
  EXPECT_GE(read_counters().cpu - before.cpu, 0.0049);
  const ProcessState state = read_state();
  EXPECT_GE(state.cores, 1);
  EXPECT_GT(state.resident, 1'000'000);
  EXPECT_GT(state.host_memory, state.host_free);
  EXPECT_GT(state.host_free, 0);
}

TEST(ProcessCounters, AreParsedFromTheFilesOfProc) {
  EXPECT_EQ(number_of("rchar: 6976\nwchar: 12\nread_bytes: 3\n", "read_bytes:"), 3);
  EXPECT_EQ(number_of("VmPeak:\t 3060 kB\nVmHWM:\t 1604 kB\n", "VmHWM:"), 1604);
  EXPECT_FALSE(number_of("xrchar: 1\n", "rchar:"));
  EXPECT_EQ(delay_of("100 87824 1\n"), 87824);
  EXPECT_FALSE(delay_of(""));
}

TEST(ProcessCounters, TakeInterfacesWithoutThoseThatRepeatThem) {
  const auto found = parse_interfaces(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo\n"
      "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n"
      "  eth0: 1000 10 0 0 0 0 0 0 300 5 0 0 0 0 0 0\n"
      "docker0: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "eth0");
  EXPECT_EQ(found[0].received, 1000);
  EXPECT_EQ(found[0].sent, 300);
  EXPECT_EQ(parse_resent("Ip: a b\nIp: 1 2\nTcp: InSegs OutSegs RetransSegs InErrs\nTcp: 5 6 42 0\n"), 42);
  EXPECT_EQ(parse_resent("Ip: a\n"), 0);
}

TEST(ProcessCounters, CountWhatPassedBetweenTwoReadings) {
  const NetworkCounters before{.network = "a", .traffic = {{"eth0", 10, 20}, {"eth1", 5, 5}}, .resent = 3};
  const NetworkCounters now{.network = "a", .traffic = {{"eth0", 110, 70}, {"eth1", 5, 5}}, .resent = 4};
  const NetworkCounters passed = passed_since(before, now);
  ASSERT_EQ(passed.traffic.size(), 1U);
  EXPECT_EQ(passed.traffic[0].sent, 100);
  EXPECT_EQ(passed.traffic[0].received, 50);
  EXPECT_EQ(passed.resent, 1);
}

}  // namespace step_clock_test
}  // namespace lockstep::train
