// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/wait_notice.h"

#include <gtest/gtest.h>

namespace lockstep {
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
