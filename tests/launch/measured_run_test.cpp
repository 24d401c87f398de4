// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/measured_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace measured_run_test {

using flight::Event;
using flight::Snapshot;
using flight::What;
using ::testing::SizeIs;

constexpr std::int64_t kMs = 1'000'000;

/// Writes the events of a rank's steps, each 100 ms long.
class Ring {
 public:
  Ring() { ring_.world_size = 2; }

  /// Backward runs from 30 to 60 ms. Two buckets come at 40 and 60 ms and end at 50 and 80 ms; the rank waits from 60
  /// ms on. The optimizer takes 5 ms from 1 ms on, with an all_reduce of 8 bytes meanwhile that nobody waits for.
  void step(std::int64_t bytes = 1000) {
    const std::int64_t at = (++steps_) * 100;
    section(What::kSectionBegin, "optimizer", at + 1);
    call(8, -1, {at + 2, at + 2, at + 4, 0});
    section(What::kSectionEnd, "optimizer", at + 6);
    section(What::kSectionBegin, "backward", at + 30);
    call(bytes, 0, {at + 40, at + 40, at + 50, 0});
    section(What::kSectionBegin, kEnd, at + 60);
    call(bytes, 1, {at + 60, at + 61, at + 80, at + 60});
    section(What::kSectionEnd, kEnd, at + 100);
    section(What::kSectionEnd, "backward", at + 100);
  }
  /// The same, in which the thread had no core for 6 ms of the 30 before backward, for 5 of the next 30 and for 1 of
  /// the last 40, of which 20 are its wait.
  void crowded_step() {
    const std::size_t first = ring_.events.size();
    step();
    const auto note = [&](What what, const char* name, std::int64_t ms) {
      for (std::size_t i = first; i < ring_.events.size(); ++i) {
        flight::Event& event = ring_.events[i];
        if (event.what == what && event.name == name) event.queued_ns = queued_ + ms * kMs;
      }
    };
    note(What::kSectionBegin, "backward", 6);
    note(What::kSectionBegin, kEnd, 11);
    note(What::kSectionEnd, kEnd, 12);
    queued_ += 12 * kMs;
  }
  void evaluate() { section(What::kSectionBegin, "evaluate", steps_ * 100 + 100); }
  [[nodiscard]] const Snapshot& ring() const { return ring_; }

 private:
  struct Times {
    std::int64_t called;
    std::int64_t begin;
    std::int64_t end;
    std::int64_t waited;
  };
  static constexpr const char* kEnd = "DistributedDataParallel::end_backward";

  void section(What what, const char* name, std::int64_t ms) {
    ring_.events.push_back({.time_ns = ms * kMs, .what = what, .name = name});
  }
  void call(std::int64_t bytes, int bucket, const Times& times) {
    Event event{.time_ns = times.begin * kMs,
                .what = What::kCollectiveBegin,
                .name = "all_reduce",
                .sequence = ++calls_,
                .bytes = static_cast<std::uint64_t>(bytes),
                .bucket = bucket,
                .called_ns = times.called * kMs};
    ring_.events.push_back(event);
    event.what = What::kCollectiveEnd;
    event.time_ns = times.end * kMs;
    event.called_ns = 0;
    event.waited_ns = times.waited * kMs;
    ring_.events.push_back(event);
  }

  Snapshot ring_;
  std::int64_t steps_ = 0;
  std::uint64_t calls_ = 0;
  std::int64_t queued_ = 0;
};

Ring ring_of(int steps) {
  Ring ring;
  for (int i = 0; i < steps; ++i) ring.step();
  return ring;
}

TEST(WorkloadOf, TakesTheWaitsOutOfAStep) {
  const schedule::Workload found = workload_of({ring_of(3).ring()});
  ASSERT_THAT(found.steps, SizeIs(2));
  EXPECT_EQ(found.ranks, 2);
  EXPECT_NEAR(found.measured_s, 0.1, 1e-9);
  const schedule::MeasuredStep& step = found.steps.front();
  EXPECT_NEAR(step.compute_s, 0.08, 1e-9);  // 20 ms of waiting
  EXPECT_NEAR(step.backward_s, 0.03, 1e-9);
  EXPECT_NEAR(step.optimizer_s, 0.005, 1e-9);
  EXPECT_NEAR(step.optimizer_end_s, 0.006, 1e-9);
  ASSERT_THAT(step.calls, SizeIs(3));
  EXPECT_EQ(step.calls[0].bytes, 8);
  EXPECT_LT(step.calls[0].waited_s, 0);
  EXPECT_NEAR(step.calls[1].called_s, 0.04, 1e-9);
  EXPECT_NEAR(step.calls[1].waited_s, 0.06, 1e-9);
  EXPECT_NEAR(step.calls[2].called_s, 0.06, 1e-9);
}

TEST(WorkloadOf, TakesOutWhatTheThreadWaitedForACore) {
  Ring ring;
  for (int i = 0; i < 3; ++i) ring.crowded_step();
  const schedule::Workload found = workload_of({ring.ring()});
  ASSERT_THAT(found.steps, SizeIs(2));
  const schedule::MeasuredStep& step = found.steps.front();
  EXPECT_NEAR(step.compute_s, 0.08 - 0.012, 1e-9);
  EXPECT_NEAR(step.backward_s, 0.03 - 0.006, 1e-9);
  EXPECT_NEAR(step.calls[1].called_s, 0.024 + 0.01 * 25 / 30, 1e-9);  // five of its thirty milliseconds
  EXPECT_NEAR(step.calls[2].called_s, 0.06 - 0.011, 1e-9);
  EXPECT_NEAR(found.measured_s, 0.1, 1e-9);
}

TEST(WorkloadOf, LeavesOutEvaluationsAndStepsUnlikeTheOthers) {
  Ring ring = ring_of(4);
  ring.evaluate();
  ring.step();
  ring.step(2000);
  ring.step();
  EXPECT_THAT(workload_of({ring.ring()}).steps, SizeIs(4));
}

TEST(WorkloadOf, LeavesOutTheFirstStepsWhereThereAreEnough) {
  EXPECT_THAT(workload_of({ring_of(21).ring()}).steps, SizeIs(17));
  EXPECT_THAT(workload_of({ring_of(21).ring(), ring_of(21).ring()}).steps, SizeIs(34));
}

TEST(WorkloadOf, LeavesOutAStepWhoseBeginWasOverwritten) {
  Snapshot ring = ring_of(4).ring();
  // The end of the first backward is there, and a call of the step behind it is not.
  const auto end = std::find_if(ring.events.begin(), ring.events.end(),
                                [](const Event& event) { return event.time_ns == 200 * kMs; });
  std::erase_if(ring.events, [&](const Event& event) { return event.time_ns < end->time_ns; });
  ring.events.insert(ring.events.begin(), *end);
  EXPECT_THAT(workload_of({ring}).steps, SizeIs(2));
}

TEST(WorkloadOf, RefusesRingsWithoutSteps) {
  EXPECT_THROW((void)workload_of({Snapshot{}}), DataError);
  EXPECT_THROW((void)workload_of({ring_of(1).ring()}), DataError);
}

TEST(ReadMeasuredRun, RefusesWhatIsNoRun) {
  try {
    (void)read_measured_run("/nowhere");
    FAIL() << "there is nothing to read";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "/nowhere is no folder");
  }
}

}  // namespace measured_run_test
}  // namespace lockstep::launch
