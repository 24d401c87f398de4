// SPDX-License-Identifier: Apache-2.0
// Time: a clock that skips time while the process is stopped, notices about waits, and spans for listeners.
#include <gtest/gtest.h>

#include <array>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/trace.h"
#include "lockstep/base/wait_notice.h"

namespace lockstep {
namespace clock_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return time; }
  TimePoint time{hours(5)};
};

TEST(TimeStamp, IsTakenOffTheNameOfAFolder) {
  EXPECT_EQ(without_time_stamp("captcha-" + time_stamp()), "captcha");
  EXPECT_EQ(without_time_stamp("captcha-digits-20261121-093000"), "captcha-digits");
  EXPECT_EQ(without_time_stamp("captcha-20261121-093000-12"), "captcha");
  for (const char* other : {"", "captcha", "captcha-7", "captcha-20261121", "captcha-20261121-093000-",
                            "a-2026112x-093000", "captcha-20261121-093000-x", "captcha-20261121-093000-1-2", "-"}) {
    EXPECT_EQ(without_time_stamp(other), other);
  }
}

TEST(AwakeClock, GoesWithItsSourceWhileItIsLookedAt) {
  FakeClock source;
  const AwakeClock clock(source);
  const TimePoint begin = clock.now();
  for (int i = 0; i < 100; ++i) {
    source.time += kAwakeLook;
    EXPECT_EQ(clock.now() - begin, (i + 1) * kAwakeLook);
  }
}

TEST(AwakeClock, LeavesOutTimeInWhichTheProcessWasStopped) {
  FakeClock source;
  const AwakeClock clock(source);
  const TimePoint deadline = clock.now() + seconds(2);
  source.time += hours(7);
  EXPECT_EQ(deadline - clock.now(), seconds(2) - kAwakeLook) << "it counts as one look";
  source.time += seconds(3);
  EXPECT_LT(clock.now(), deadline) << "stopped again";
  for (int i = 0; i < 10; ++i) {
    source.time += kAwakeLook;
    (void)clock.now();
  }
  EXPECT_GE(clock.now(), deadline);
}

TEST(AwakeClock, IsNotStoppedByAMachineThatWakesItLate) {
  FakeClock source;
  const AwakeClock clock(source);
  const TimePoint begin = clock.now();
  source.time += 3 * kAwakeLook;
  EXPECT_EQ(clock.now() - begin, 3 * kAwakeLook);
}

TEST(AwakeClock, GoesOnWhereEveryLookIsFarTooLate) {
  FakeClock source;
  const AwakeClock clock(source);
  const TimePoint deadline = clock.now() + seconds(2);
  int looks = 0;
  for (; clock.now() < deadline && looks < 1000; ++looks) source.time += seconds(1);
  EXPECT_EQ(looks, 10);
}

TEST(AwakeTime, SaysHowLongTheProcessWasStopped) {
  AwakeTime time(seconds(1));
  const TimePoint begin(hours(5));
  (void)time.at(begin);
  (void)time.at(begin + seconds(3));
  EXPECT_EQ(time.stopped(), seconds(0));
  (void)time.at(begin + seconds(63));
  EXPECT_EQ(time.stopped(), seconds(59));
}

TEST(AwakeSlice, IsShortWhereItMatters) {
  EXPECT_EQ(awake_slice(milliseconds(-1)), milliseconds(0));
  EXPECT_EQ(awake_slice(milliseconds(7)), milliseconds(7));
  EXPECT_EQ(awake_slice(seconds(30)), kAwakeLook);
}

TEST(AwakeSlice, LeavesAMomentHoursAwayWhereItIs) {
  FakeClock source;
  const AwakeClock clock(source);
  const TimePoint begin = clock.now();
  const TimePoint deadline = begin + hours(2);
  while (clock.now() < deadline && source.time - begin < hours(3)) source.time += awake_slice(deadline - clock.now());
  EXPECT_EQ(source.time - begin, hours(2));
}

TEST(WaitAwake, EndsWhereWhatItWaitsForIsThereOrItsTimeIsOver) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  EXPECT_TRUE(wait_awake(changed, lock, hours(1), [] { return true; }));
  EXPECT_FALSE(wait_awake(changed, lock, milliseconds(1), [] { return false; }));
}

}  // namespace clock_test

namespace wait_notice_test {

constexpr TimePoint at(double seconds) {
  return TimePoint(std::chrono::duration_cast<TimePoint::duration>(Seconds(1000 + seconds)));
}

TEST(WaitNotice, IsDueAfterThreeSecondsAndThenEveryThirty) {
  WaitNotice notice(at(0));
  EXPECT_FALSE(notice.due(at(2.9)));
  EXPECT_EQ(notice.next(), at(3));
  EXPECT_EQ(notice.due(at(3)), Seconds(3));
  EXPECT_FALSE(notice.due(at(32.9)));
  EXPECT_EQ(notice.due(at(33.5)), Seconds(33.5));
  EXPECT_EQ(notice.next(), at(63));
}

TEST(WaitNotice, ComesOnceWhereTheProcessSlept) {
  WaitNotice notice(at(0));
  EXPECT_EQ(notice.due(at(100)), Seconds(100));
  EXPECT_FALSE(notice.due(at(122.9)));
  EXPECT_EQ(notice.next(), at(123));
}

}  // namespace wait_notice_test
}  // namespace lockstep

namespace lockstep::trace {
namespace clock_test {

// Several listeners at once: the flight recorder, a profile, a report's metrics.

class Counter final : public Sink {
 public:
  void begin(const Event& /*event*/) noexcept override { ++begun; }
  void end(const Event& /*event*/) noexcept override { ++ended; }
  int begun = 0;
  int ended = 0;
};

TEST(Trace, EverySinkHearsEverySpan) {
  Counter first;
  Counter second;
  ASSERT_TRUE(add_sink(first));
  ASSERT_TRUE(add_sink(second));
  { const Span span({.name = "work"}); }
  remove_sink(first);
  { const Span span({.name = "work"}); }
  remove_sink(second);
  { const Span span({.name = "work"}); }
  EXPECT_EQ(first.begun, 1);
  EXPECT_EQ(second.begun, 2);
  EXPECT_EQ(second.ended, 2);
}

TEST(Trace, ASpanEndsInTheSinksThatItBeganIn) {
  Counter before;
  Counter after;
  ASSERT_TRUE(add_sink(before));
  {
    const Span span({.name = "work"});
    remove_sink(before);
    ASSERT_TRUE(add_sink(after));
  }
  remove_sink(after);
  EXPECT_EQ(before.ended, 1);
  EXPECT_EQ(after.ended, 0);
}

TEST(Trace, RefusesMoreSinksThanItHolds) {
  std::array<Counter, std::tuple_size_v<Sinks> + 1> counters;
  std::size_t added = 0;
  while (added < counters.size() && add_sink(counters[added])) ++added;
  EXPECT_EQ(added, std::tuple_size_v<Sinks>);
  for (Counter& counter : counters) remove_sink(counter);
  EXPECT_EQ(sinks(), Sinks{});
}

}  // namespace clock_test
}  // namespace lockstep::trace
