// SPDX-License-Identifier: Apache-2.0
// How `lockstep doctor` measures between hosts: who meets whom, and both sides of a connection, on the loopback.
#include "launch/doctor/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "launch/doctor/link_socket.h"
#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace links_test {

using ::testing::ElementsAre;

TEST(Links, EveryTwoHostsMeetOnceAndNobodyHasTwoPartners) {
  for (int count = 0; count <= 9; ++count) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < rounds_of(count); ++round) {
      for (int place = 0; place < count; ++place) {
        const int partner = partner_of(place, round, count);
        if (partner < 0) continue;
        EXPECT_NE(partner, place);
        EXPECT_EQ(partner_of(partner, round, count), place) << count << " hosts, round " << round;
        if (place < partner) {
          EXPECT_TRUE(met.insert({place, partner}).second);
        }
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(count * (count - 1) / 2 * (count > 1 ? 1 : 0)));
  }
}

TEST(Links, TheFirstRankOfEachNodeMeasures) {
  EXPECT_THAT(first_ranks({0, 0, 1, 1, 2}), ElementsAre(0, 2, 4));
  EXPECT_THAT(first_ranks({1, 0, 1}), ElementsAre(0, 1));
}

TEST(Links, ALinkIsMeasuredByBothSides) {
  LinkListener listener("127.0.0.1");
  std::thread other([&] { serve_link(listener.accept_from(3, std::chrono::seconds(10)).get()); });
  {
    const UniqueFd fd = connect_link(listener.address(), 3);
    const LinkFigures figures = measure_link(fd.get());
    EXPECT_GT(figures.round_trip_us, 1);
    EXPECT_LT(figures.round_trip_us, 100'000);
    EXPECT_GT(figures.bytes_per_s, 1e7);
  }
  other.join();
}

TEST(Links, AStrangerIsTurnedAwayAndAnEarlierHostWaits) {
  LinkListener listener("127.0.0.1");
  LinkAddress wrong = listener.address();
  wrong.password = std::string(64, '0');
  const UniqueFd stranger = connect_link(wrong, 1);
  const UniqueFd early = connect_link(listener.address(), 2);
  const UniqueFd first = connect_link(listener.address(), 1);
  EXPECT_TRUE(listener.accept_from(1, std::chrono::seconds(10)).valid());
  EXPECT_TRUE(listener.accept_from(2, std::chrono::seconds(10)).valid());
  EXPECT_FALSE(listener.accept_from(1, std::chrono::milliseconds(20)).valid());
  char byte = 0;
  EXPECT_LE(::read(stranger.get(), &byte, 1), 0);
}

TEST(Links, StrangersThatSayNothingKeepNoHostWaiting) {
  LinkListener listener("127.0.0.1");
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) {
    LinkAddress silent = listener.address();
    silent.password = i % 2 == 0 ? "" : std::string(50, '0');  // and 8 digits: never a whole greeting
    strangers.push_back(connect_link(silent, 1));
    // Like a flood, they are heard of while the host is waited for.
    if (i % 50 == 49) {
      EXPECT_FALSE(listener.accept_from(1, std::chrono::milliseconds(1)).valid());
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  const UniqueFd host = connect_link(listener.address(), 1);
  EXPECT_TRUE(listener.accept_from(1, std::chrono::seconds(10)).valid());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(Links, NobodyThereIsAnErrorWithTheSystemsWords) {
  LinkAddress address;
  {
    const LinkListener listener("127.0.0.1");
    address = listener.address();
  }
  try {
    (void)connect_link(address, 0);
    FAIL() << "somebody listened";
  } catch (const IoError& problem) {
    EXPECT_EQ(problem.message(), "cannot connect: Connection refused");
  }
}

}  // namespace links_test
}  // namespace lockstep::launch
