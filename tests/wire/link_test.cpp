// SPDX-License-Identifier: Apache-2.0
// The link to a rank, even if a stranger answers in its place.
#include "wire/link.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "lockstep/store/store.h"
#include "wire/sockets.h"

namespace lockstep::wire {
namespace link_test {

const std::string kToken = "a token that both ranks know";
const std::string kKey = wire_key(kToken, "seed");
const std::string kNonceOfZero(kNonceBytes, 'Z');

/// A store with the address of rank 0's listener.
std::shared_ptr<Store> store_with(const Endpoint& zero) {
  auto store = make_local_store();
  store->set("group/seed", "seed");
  store->set("group/at/0", fmt::format("{} {} {}", zero.address, zero.port, store::to_hex(kNonceOfZero)));
  return store;
}

/// Rank 1 of two, which calls rank 0.
HubOptions rank_one(const Endpoint& zero, bool is_encrypted, std::chrono::milliseconds timeout) {
  return {.store = store_with(zero),
          .prefix = "group/",
          .rank = 1,
          .size = 2,
          .address = "127.0.0.1",
          .token = kToken,
          .is_encrypted = is_encrypted,
          .timeout = timeout};
}

class Calling : public ::testing::TestWithParam<bool> {
 protected:
  /// The link's next call; each connect() advances the link.
  UniqueFd next_call() {
    for (int tries = 0; tries < 5000; ++tries) {
      (void)link_.connect();
      pollfd ready{listening_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 1) == 1) return UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK));
    }
    return {};
  }

  std::string hello_from(const UniqueFd& fd) {
    std::string words(kHelloBytes, '\0');
    std::size_t have = 0;
    for (int tries = 0; tries < 5000 && have < words.size(); ++tries) {
      (void)link_.connect();
      have += receive_some(fd.get(), {}, {reinterpret_cast<std::byte*>(words.data()) + have, words.size() - have});
    }
    return words;
  }

  /// True once the link is open; rank 0 answers at `fd`.
  bool answers(UniqueFd fd) {
    const std::string words = hello_from(fd);
    const auto hello = read_hello(words, kKey, kNonceOfZero);
    if (!hello) return false;
    const Route route = route_of(fd.get(), End::kCalled);
    Connection zero(std::move(fd), Opening::answer({kKey, kNonceOfZero, route}, *hello, words));
    for (int tries = 0; tries < 100'000 && !link_.is_open(); ++tries) {
      (void)zero.open();
      (void)link_.connect();
    }
    return link_.is_open();
  }

  const UniqueFd listening_ = listen_at("127.0.0.1");
  Hub hub_{rank_one(own_end(listening_.get()), GetParam(), std::chrono::seconds(60))};
  Link link_{hub_, 7, 0};
};

TEST_P(Calling, AgainWhereAStrangerAnswersInPlaceOfTheRank) {
  const UniqueFd stranger = next_call();
  ASSERT_TRUE(stranger.valid());
  (void)hello_from(stranger);
  const std::string lies(200, 'x');
  ASSERT_EQ(::send(stranger.get(), lies.data(), lies.size(), 0), static_cast<ssize_t>(lies.size()));
  UniqueFd rank_zero = next_call();
  ASSERT_TRUE(rank_zero.valid()) << "it does not call again";
  EXPECT_FALSE(link_.is_open());
  EXPECT_TRUE(answers(std::move(rank_zero)));
}

TEST_P(Calling, AgainWhereAStrangerSaysTheHelloBackAndCloses) {
  {
    const UniqueFd stranger = next_call();
    ASSERT_TRUE(stranger.valid());
    const std::string words = hello_from(stranger);
    ASSERT_EQ(::send(stranger.get(), words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
  }
  UniqueFd rank_zero = next_call();
  ASSERT_TRUE(rank_zero.valid()) << "it does not call again";
  EXPECT_TRUE(answers(std::move(rank_zero)));
}

TEST_P(Calling, AgainInsideTheJobsLimitWhereAStrangerSaysNothing) {
  Hub hub(rank_one(own_end(listening_.get()), GetParam(), std::chrono::milliseconds(400)));
  Link link(hub, 7, 0);
  const auto calls = [&] {
    for (int tries = 0; tries < 2000; ++tries) {
      (void)link.connect();
      pollfd ready{listening_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 1) == 1) return UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK));
    }
    return UniqueFd();
  };
  const UniqueFd silent = calls();
  ASSERT_TRUE(silent.valid());
  EXPECT_TRUE(calls().valid()) << "it does not call again within 2 s";
  EXPECT_EQ(link.problem(), "it has not answered");
}

TEST_P(Calling, IsNotAwaitedAtATimeByTheRankThatIsCalled) {
  HubOptions options = rank_one({}, GetParam(), std::chrono::seconds(60));
  options.rank = 0;
  Hub hub(options);
  Link link(hub, 7, 1);
  {
    const UniqueFd caller = begin_to_connect(hub.listener().endpoint());
    pollfd ready{caller.get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    const std::string words =
        write_hello({.is_encrypted = GetParam(), .from = 1, .to = 0, .circle = 7, .nonce = make_nonce()}, hub.key(),
                    hub.own_nonce());
    ASSERT_EQ(::send(caller.get(), words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
  }
  for (int tries = 0; tries < 5000 && link.problem() != "the other end has closed the connection"; ++tries) {
    (void)link.connect();
    (void)::poll(nullptr, 0, 1);
  }
  ASSERT_EQ(link.problem(), "the other end has closed the connection");
  EXPECT_FALSE(link.due()) << "it would look again and again";
}

TEST(OpeningLimit, IsBelowTheJobsLimitAndNeverLong) {
  using std::chrono::milliseconds;
  EXPECT_EQ(opening_limit(milliseconds(300)), milliseconds(150));
  EXPECT_EQ(opening_limit(milliseconds(20'000)), milliseconds(10'000));
  EXPECT_EQ(opening_limit(milliseconds(600'000)), milliseconds(20'000));
  EXPECT_EQ(opening_limit(milliseconds(0)), milliseconds(20'000));
}

INSTANTIATE_TEST_SUITE_P(Wire, Calling, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Encrypted" : "Plain"; });

}  // namespace link_test
}  // namespace lockstep::wire
