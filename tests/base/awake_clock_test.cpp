// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/awake_clock.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace awake_clock_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return time; }
  TimePoint time{hours(5)};
};

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

}  // namespace awake_clock_test
}  // namespace lockstep
