// SPDX-License-Identifier: Apache-2.0
// The measurements of `lockstep doctor` between hosts: the pairs, and both sides of a link, on loopback.
#include "launch/doctor/links.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <sstream>
#include <thread>

#include "launch/doctor/link_meter.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {
namespace links_test {

using std::chrono::seconds;
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

/// Three hosts that rendezvous in one store.
class MeasuredLinks : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] std::shared_ptr<wire::Hub> host(int rank, const std::string& token = "what all hosts know") const {
    return wire::open_hub({.store = store_,
                           .prefix = "links/",
                           .rank = rank,
                           .size = 3,
                           .address = "127.0.0.1",
                           .token = token,
                           .is_encrypted = GetParam(),
                           .timeout = seconds(60)});
  }

  /// A stranger that connects to host 0 and sends the bytes `words`.
  [[nodiscard]] UniqueFd stranger(const std::string& words) const {
    std::istringstream place(store_->get("links/at/0", seconds(1)));
    std::string address;
    int port = 0;
    place >> address >> port;
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port)), .sin_addr = {}, .sin_zero = {}};
    ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    (void)!::write(fd.get(), words.data(), words.size());
    return fd;
  }

  static void serve(const std::shared_ptr<wire::Hub>& hub, int peer) {
    wire::Circle circle(hub, static_cast<std::uint64_t>(peer));
    serve_link(circle, peer, [] { return false; });
  }

  static view::LinkSpeed measure(const std::shared_ptr<wire::Hub>& hub, int own, std::chrono::milliseconds patience) {
    wire::Circle circle(hub, static_cast<std::uint64_t>(own));
    return measure_link(circle, 0, patience);
  }

  const std::shared_ptr<Store> store_ = make_local_store();
};

TEST_P(MeasuredLinks, AreMeasuredByBothSides) {
  const auto zero = host(0);
  std::thread other([&] { serve(zero, 1); });
  const view::LinkSpeed speed = measure(host(1), 1, seconds(10));
  EXPECT_GT(speed.round_trip_us, 1);
  EXPECT_LT(speed.round_trip_us, 100'000);
  EXPECT_GT(speed.bytes_per_s, 1e7);
  other.join();
}

TEST_P(MeasuredLinks, AStrangerIsTurnedAwayAndAnEarlierHostWaits) {
  const auto zero = host(0);
  const UniqueFd fd = stranger(std::string(200, '0'));
  std::thread early([&] { EXPECT_GT(measure(host(2), 2, seconds(20)).bytes_per_s, 0); });
  std::thread first([&] { EXPECT_GT(measure(host(1), 1, seconds(20)).bytes_per_s, 0); });
  serve(zero, 1);
  serve(zero, 2);
  early.join();
  first.join();
  char byte = 0;
  EXPECT_LE(::read(fd.get(), &byte, 1), 0);
}

TEST_P(MeasuredLinks, StrangersThatSayNothingKeepNoHostWaiting) {
  const auto zero = host(0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(stranger(i % 2 == 0 ? "" : std::string(50, '0')));
  std::thread other([&] { serve(zero, 1); });
  EXPECT_GT(measure(host(1), 1, seconds(2)).bytes_per_s, 0) << "it did not connect within 2 s";
  other.join();
}

TEST_P(MeasuredLinks, AreRefusedToWhoDoesNotKnowTheSecret) {
  const auto zero = host(0);
  std::atomic<bool> has_given_up{false};
  std::thread other([&] {
    wire::Circle circle(zero, 1);
    serve_link(circle, 1, [&] { return has_given_up.load(); });
  });
  try {
    (void)measure(host(1, "what a stranger knows"), 1, std::chrono::milliseconds(300));
    ADD_FAILURE() << "a stranger has measured";
  } catch (const IoError& problem) {
    EXPECT_THAT(problem.message(), ::testing::StartsWith("cannot connect: "));
  }
  has_given_up = true;
  other.join();
}

TEST_P(MeasuredLinks, NobodyThereIsAnErrorWithTheSystemsWords) {
  (void)host(0);
  try {
    (void)measure(host(1), 1, std::chrono::milliseconds(300));
    FAIL() << "a host listened";
  } catch (const IoError& problem) {
    EXPECT_EQ(problem.message(), "cannot connect: Connection refused");
  }
}

INSTANTIATE_TEST_SUITE_P(Wire, MeasuredLinks, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Encrypted" : "Plain"; });

}  // namespace links_test
}  // namespace lockstep::launch
