// SPDX-License-Identifier: Apache-2.0
// Two ranks over the wire, as threads of this process.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends/tcp/tcp.h"
#include "comm/network/transport.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {
namespace tcp_test {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Collective something(std::chrono::milliseconds limit) {
  Collective collective;
  collective.timeout = limit;
  collective.deadline = AwakeClock::instance().now() + limit;
  return collective;
}

class TwoRanks : public ::testing::TestWithParam<Wire> {
 protected:
  [[nodiscard]] std::shared_ptr<Network> network_of(int rank) const {
    World world{.rank = rank, .size = 2};
    world.hosts = {"a", "b"};
    world.store = store_;
    world.prefix = "group/";
    return make_tcp_network(std::move(world),
                            {.store_host = "127.0.0.1", .timeout = std::chrono::seconds(20), .wire = GetParam()});
  }

  static std::shared_ptr<Transport> join(Network& network) { return network.connect("ranks"); }

  const std::shared_ptr<Store> store_ = make_local_store();
};

void talk(Transport& transport, int rounds) {
  const int own = transport.world().rank;
  std::mt19937 sizes(7);  // the same on both ranks
  for (int round = 0; round < rounds; ++round) {
    const std::size_t first = 1 + sizes() % (round % 5 == 4 ? 3'000'000 : 5000);
    const std::size_t theirs = 1 + sizes() % 5000;
    const std::size_t out = own == 0 ? first : theirs;
    const std::size_t in = own == 0 ? theirs : first;
    auto said = bytes_of(out, static_cast<unsigned>(round * 2 + own));
    std::vector<std::byte> heard(in);
    std::size_t last = 0;
    transport.exchange_in_parts({{1 - own, said.data(), out}}, {{1 - own, heard.data(), in}},
                                something(std::chrono::seconds(20)), [&](std::size_t bytes) {
                                  EXPECT_GE(bytes, last);
                                  last = bytes;
                                });
    EXPECT_EQ(last, in);
    EXPECT_EQ(heard, bytes_of(in, static_cast<unsigned>(round * 2 + 1 - own))) << "round " << round;
  }
}

TEST_P(TwoRanks, HearWhatTheOtherSays) {
  const auto one = network_of(0);
  const auto two = network_of(1);
  std::thread other([&] { talk(*join(*two), 60); });
  talk(*join(*one), 60);
  other.join();
}

TEST_P(TwoRanks, CarryMessagesBesideExchangesInThreadsOfTheirOwn) {
  const auto one = network_of(0);
  const auto two = network_of(1);
  const auto networks = std::array{one, two};
  const auto transports = std::array{join(*one), join(*two)};
  const auto words = bytes_of(100'000, 3);
  std::vector<std::byte> heard(words.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { talk(*transports[static_cast<std::size_t>(rank)], 20); });
    threads.emplace_back([&, rank] {
      const auto channel = make_network_channel(networks[static_cast<std::size_t>(rank)], 1 - rank, rank == 0);
      Collective message = something(std::chrono::seconds(20));
      message.data = words.data();
      message.output = heard.data();
      message.bytes = words.size();
      channel->run(message);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heard, words);
}

TEST_P(TwoRanks, NameTheOneThatHasGone) {
  const auto one = network_of(0);
  std::thread other([&] {
    const auto two = network_of(1);
    talk(*join(*two), 1);
  });
  const auto transport = join(*one);
  talk(*transport, 1);
  other.join();
  std::byte room{};
  try {
    transport->exchange({}, {{1, &room, 1}}, something(std::chrono::seconds(20)));
    FAIL() << "nothing was thrown";
  } catch (const PeerError& gone) {
    EXPECT_THAT(gone.message(), HasSubstr("rank 1"));
  }
}

TEST_P(TwoRanks, NameTheOneThatIsLate) {
  const auto one = network_of(0);
  const auto two = network_of(1);
  (void)join(*two);
  std::byte room{};
  try {
    join(*one)->exchange({}, {{1, &room, 1}}, something(std::chrono::milliseconds(300)));
    FAIL() << "nothing was thrown";
  } catch (const TimeoutError& late) {
    EXPECT_THAT(late.what(), HasSubstr("rank 1"));
  }
}

TEST_P(TwoRanks, SayWhyALateOneIsNotConnected) {
  const auto two = network_of(1);
  const auto transport = join(*two);
  store_->set("group/tcp/at/0", fmt::format("127.0.0.1 1 {}", std::string(64, '0')));
  std::byte room{};
  try {
    transport->exchange({}, {{0, &room, 1}}, something(std::chrono::milliseconds(300)));
    FAIL() << "nothing was thrown";
  } catch (const TimeoutError& late) {
    EXPECT_THAT(late.what(), HasSubstr("rank 0 on a (not connected: Connection refused)"));
  }
}

INSTANTIATE_TEST_SUITE_P(Wire, TwoRanks, ::testing::Values(Wire::kTls, Wire::kPlain),
                         [](const auto& each) { return each.param == Wire::kTls ? "Encrypted" : "Plain"; });

}  // namespace tcp_test
}  // namespace lockstep::comm
