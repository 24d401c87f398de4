// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/clock_offset.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::observe {
namespace clock_offset_test {

constexpr std::int64_t kOffset = 5'000'000'000;

/// A round in which the ranks enter at these times of rank 0's clock, and the later one lets both leave after a trip.
struct Meeting {
  std::int64_t main_enters;
  std::int64_t other_enters;
  std::int64_t trip;
};

ClockOffset offset_of(const std::vector<Meeting>& meetings) {
  std::vector<ClockRound> main;
  std::vector<ClockRound> other;
  for (const Meeting& meeting : meetings) {
    const std::int64_t leave = std::max(meeting.main_enters, meeting.other_enters) + meeting.trip;
    main.push_back({meeting.main_enters, leave});
    other.push_back({meeting.other_enters + kOffset, leave + kOffset});
  }
  return clock_offset(other, main);
}

TEST(ClockOffset, LiesWithinItsErrorOfTheTruth) {
  const ClockOffset found = offset_of({{100, 130, 50}, {300, 290, 40}, {500, 555, 90}});
  EXPECT_NEAR(static_cast<double>(found.offset_ns), static_cast<double>(kOffset), static_cast<double>(found.error_ns));
  EXPECT_LE(found.error_ns, 50);
}

TEST(ClockOffset, IsAsGoodAsItsBestRounds) {
  const ClockOffset rough = offset_of({{100, 100, 900}});
  const ClockOffset fine = offset_of({{100, 100, 900}, {3000, 3000, 20}});
  EXPECT_EQ(rough.error_ns, 900);
  EXPECT_EQ(fine.error_ns, 20);
  EXPECT_EQ(fine.offset_ns, kOffset);
}

TEST(ClockOffset, TakesTheBoundFromEachRankThatCameLate) {
  // In one round rank 0 comes late, in the other this rank: together they enclose the offset.
  const ClockOffset found = offset_of({{1000, 100, 10}, {2000, 2900, 10}});
  EXPECT_EQ(found.offset_ns, kOffset);
  EXPECT_EQ(found.error_ns, 10);
}

TEST(ClockOffset, RefusesRoundsThatDoNotBelongTogether) {
  EXPECT_THROW((void)clock_offset({}, {}), UsageError);
  EXPECT_THROW((void)clock_offset({{1, 2}}, {{1, 2}, {3, 4}}), UsageError);
}

}  // namespace clock_offset_test
}  // namespace lockstep::observe
