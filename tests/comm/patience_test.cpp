// SPDX-License-Identifier: Apache-2.0
#include "comm/core/patience.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace patience_test {

using std::chrono::seconds;

TimePoint at(int second) { return TimePoint(seconds(second)); }

TEST(Patience, EndsWhenTheLauncherSays) {
  Patience patience;
  EXPECT_EQ(patience.end(at(103), at(100), at(100)), at(103));
  EXPECT_EQ(patience.end(at(103), at(102), at(102)), at(103));
  EXPECT_EQ(patience.end(at(105), at(102), at(102)), at(105)) << "it says so again";
}

TEST(Patience, HoldsOverATimeInWhichTheJobWasSuspended) {
  Patience patience;
  EXPECT_EQ(patience.end(at(103), at(100), at(100)), at(103));
  EXPECT_EQ(patience.end(at(103), at(700), at(100)), at(103)) << "600 s later, which this rank slept through";
  EXPECT_EQ(patience.end(at(704), at(701), at(101)), at(104));
}

TEST(Patience, LeavesTheLauncherTimeToGoOnAfterAStop) {
  Patience patience;
  (void)patience.end(at(101), at(100), at(100));
  EXPECT_EQ(patience.end(at(101), at(701), at(101)), at(103));
  EXPECT_EQ(patience.end(at(101), at(702), at(102)), at(103)) << "once";
}

TEST(Patience, ThatWasOverBeforeAStopIsOverAfterIt) {
  Patience patience;
  (void)patience.end(at(101), at(100), at(100));
  (void)patience.end(at(101), at(105), at(105));
  EXPECT_EQ(patience.end(at(101), at(705), at(105)), at(101));
}

TEST(Patience, IsNoneWhereTheLauncherHasSaidNothing) {
  Patience patience;
  EXPECT_LE(patience.end(TimePoint(), at(100), at(90)), at(90));
}

}  // namespace patience_test
}  // namespace lockstep::comm
