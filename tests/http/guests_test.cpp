// SPDX-License-Identifier: Apache-2.0
#include "http/guests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::http {
namespace guests_test {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TimePoint kStart{};

TEST(Guests, TheNewestTakesThePlaceOfTheOldestStranger) {
  Guests guests(2);
  EXPECT_THAT(guests.come(7, kStart), IsEmpty());
  EXPECT_THAT(guests.come(5, kStart), IsEmpty());
  EXPECT_THAT(guests.come(6, kStart), ElementsAre(7));
  EXPECT_THAT(guests.come(8, kStart), ElementsAre(5)) << "7 has been told already";
}

TEST(Guests, WhoHasProvedWhoHeIsKeepsHisPlace) {
  Guests guests(1);
  EXPECT_THAT(guests.come(1, kStart), IsEmpty());
  guests.ask(1, true, kStart);
  for (int stranger = 2; stranger < 100; ++stranger) {
    for (const int each : guests.come(stranger, kStart)) {
      EXPECT_NE(each, 1);
      guests.leave(each);
    }
  }
  guests.answered(1, kStart);
  guests.ask(1, false, kStart);
  EXPECT_THAT(guests.come(100, kStart), ElementsAre(99)) << "known once, known for all of the connection";
}

TEST(Guests, WhoDripsARequestIsLateAndNamedOnce) {
  Guests guests(4);
  EXPECT_THAT(guests.come(1, kStart), IsEmpty());
  EXPECT_THAT(guests.late(kStart + Guests::kHeadTime - seconds(1)), IsEmpty());
  EXPECT_THAT(guests.late(kStart + Guests::kHeadTime), ElementsAre(1));
  EXPECT_THAT(guests.late(kStart + Guests::kHeadTime + seconds(1)), IsEmpty());
}

TEST(Guests, AStrangerWhoTakesNoAnswerIsLateAndAnOwnerIsNot) {
  Guests guests(4);
  (void)guests.come(1, kStart);
  (void)guests.come(2, kStart);
  guests.ask(1, false, kStart);
  guests.ask(2, true, kStart);
  EXPECT_THAT(guests.late(kStart + Guests::kAnswerTime), ElementsAre(1));
  guests.answered(2, kStart + seconds(100));
  EXPECT_THAT(guests.late(kStart + seconds(101)), IsEmpty());
  EXPECT_THAT(guests.late(kStart + seconds(100) + Guests::kHeadTime), ElementsAre(2));
}

TEST(Guests, ASocketNumberThatComesAgainIsAnotherGuest) {
  Guests guests(2);
  (void)guests.come(1, kStart);
  guests.ask(1, true, kStart);
  guests.leave(1);
  (void)guests.come(1, kStart);
  (void)guests.come(2, kStart);
  EXPECT_THAT(guests.come(3, kStart), ElementsAre(1));
}

}  // namespace guests_test
}  // namespace lockstep::http
