// SPDX-License-Identifier: Apache-2.0
// The way to one rank where somebody else answers in its place.
#include "comm/backends/tcp/link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "comm/backends/tcp/sockets.h"
#include "lockstep/store/store.h"

namespace lockstep::comm::tcp {
namespace link_test {

const std::string kKey = wire_key("a token that both ranks know", "seed");
const std::string kNonceOfZero(kNonceBytes, 'Z');

/// Rank 1 of two, which calls rank 0.
class CallingHub final : public TcpHub {
 public:
  CallingHub(Endpoint zero, bool is_encrypted)
      : zero_(std::move(zero)),
        is_encrypted_(is_encrypted),
        listener_({.address = "127.0.0.1", .key = kKey, .nonce = own_nonce_, .rank = 1, .size = 2}) {}

  NetworkState& state() override { return state_; }
  Listener& listener() override { return listener_; }
  const std::string& key() const override { return kKey; }
  const std::string& own_nonce() const override { return own_nonce_; }
  bool is_encrypted() const override { return is_encrypted_; }
  std::chrono::milliseconds timeout() const override { return std::chrono::seconds(60); }
  std::optional<Place> place_of(int /*rank*/) override { return Place{zero_, kNonceOfZero}; }

 private:
  NetworkState state_{World{.rank = 1, .size = 2, .hosts = {}, .store = make_local_store(), .prefix = "group/"}};
  const Endpoint zero_;
  const bool is_encrypted_;
  const std::string own_nonce_ = make_nonce();
  Listener listener_;
};

class Calling : public ::testing::TestWithParam<bool> {
 protected:
  /// The next call that the link makes; a call of 0 ms looks, waits for nothing, and lets the link go on.
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

  /// True once the link is open; rank 0 answers it at `fd`.
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
  CallingHub hub_{own_end(listening_.get()), GetParam()};
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

INSTANTIATE_TEST_SUITE_P(Wire, Calling, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Encrypted" : "Plain"; });

}  // namespace link_test
}  // namespace lockstep::comm::tcp
