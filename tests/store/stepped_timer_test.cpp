// SPDX-License-Identifier: Apache-2.0
#include "store/stepped_timer.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::store {
namespace stepped_timer_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StepCount, CountsEachStepAsItWasPlannedHoweverLongTheProcessSleptThroughIt) {
  StepCount count(seconds(6));
  milliseconds sum{0};
  int steps = 0;
  for (milliseconds step = count.next(); step.count() > 0; step = count.next()) {
    EXPECT_LE(step, milliseconds(6000 / 16)) << "a job that was suspended loses no more";
    sum += step;
    ++steps;
  }
  EXPECT_EQ(sum, seconds(6));
  EXPECT_EQ(steps, 16);
}

TEST(StepCount, WakesNobodyOftenInALongWait) { EXPECT_EQ(StepCount(hours(24 * 365)).next(), std::chrono::minutes(1)); }

TEST(StepCount, OfNoTimeIsOverAtOnce) { EXPECT_EQ(StepCount(milliseconds(0)).next(), milliseconds(0)); }

TEST(SteppedTimer, CallsOnceAtItsEnd) {
  asio::io_context io;
  SteppedTimer timer(io.get_executor());
  int calls = 0;
  timer.start(milliseconds(20), [&] { ++calls; });
  io.run();
  EXPECT_EQ(calls, 1);
}

TEST(SteppedTimer, DoesNotCallWhenItWasStartedAnewOrCancelled) {
  asio::io_context io;
  SteppedTimer timer(io.get_executor());
  int first = 0;
  int second = 0;
  timer.start(milliseconds(0), [&] { ++first; });
  timer.start(milliseconds(0), [&] { ++second; });
  io.run();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  io.restart();
  timer.start(milliseconds(0), [&] { ++first; });
  timer.cancel();
  io.run();
  EXPECT_EQ(first, 0);
}

// The process sleeps through several times the limit, in which its timer thread does nothing, either.
TEST(SteppedTimer, OutlastsATimeInWhichItsProcessWasStopped) {
  asio::io_context io;
  SteppedTimer timer(io.get_executor());
  bool is_over = false;
  timer.start(milliseconds(160), [&] { is_over = true; });
  std::this_thread::sleep_for(milliseconds(500));
  io.poll();
  EXPECT_FALSE(is_over);
  io.run();
  EXPECT_TRUE(is_over);
}

}  // namespace stepped_timer_test
}  // namespace lockstep::store
