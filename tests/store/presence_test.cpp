// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/presence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <optional>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "store/door.h"
#include "store/wire.h"

namespace lockstep {
namespace presence_test {

using std::chrono::milliseconds;
using store::FrameWriter;
using store::Verb;

constexpr auto kLong = std::chrono::seconds(60);

class PresenceTest : public ::testing::Test {
 protected:
  StoreAddress address() const { return {.host = "127.0.0.1", .port = server_->port(), .token = token_}; }

  // A client that attends once, by hand, and then does nothing more.
  store::Socket attend_once(milliseconds silence) const {
    auto opened = store::open_connection(address(), SystemClock::instance().now() + kLong);
    store::Socket socket = std::move(*opened.socket);
    FrameWriter frame(Verb::kAttend);
    frame.number(silence.count()).strings({"lost", "left/1"}).string("node 1");
    const auto deadline = SystemClock::instance().now() + kLong;
    std::string reply;
    EXPECT_EQ(socket.send(frame.take(), deadline), store::Outcome::kDone);
    EXPECT_EQ(socket.receive(reply, deadline), store::Outcome::kDone);
    return socket;
  }

  const std::string token_ = make_token();
  std::unique_ptr<StoreServer> server_ =
      std::make_unique<StoreServer>(StoreServer::Options{.host = "127.0.0.1", .port = 0, .token = token_});
  const std::shared_ptr<Store> store_ = connect_store(address(), kLong);
};

TEST_F(PresenceTest, OfOneThatLeavesPublishesNothing) {
  { const Presence presence(address(), {.keys = {"lost"}, .will = "node 1"}, kLong); }
  EXPECT_EQ(store_->try_get("lost"), std::nullopt);
}

TEST_F(PresenceTest, OfOneWhoseConnectionEndsPublishesItsWillUnderEveryKey) {
  { const store::Socket dies = attend_once(kLong); }
  EXPECT_EQ(store_->get("lost", kLong), "closed\nnode 1");
  EXPECT_EQ(store_->get("left/1", kLong), "closed\nnode 1");
}

TEST_F(PresenceTest, OfOneWhoseConnectionEndsAppendsItsWillToAQueue) {
  for (int i = 0; i < 2; ++i) {
    auto opened = store::open_connection(address(), SystemClock::instance().now() + kLong);
    store::Socket socket = std::move(*opened.socket);
    FrameWriter frame(Verb::kAttend);
    frame.number(milliseconds(kLong).count()).strings({"lost/"}).string("node");
    const auto deadline = SystemClock::instance().now() + kLong;
    std::string reply;
    ASSERT_EQ(socket.send(frame.take(), deadline), store::Outcome::kDone);
    ASSERT_EQ(socket.receive(reply, deadline), store::Outcome::kDone);
  }
  EXPECT_EQ(store_->get("lost/1", kLong), "closed\nnode");
  EXPECT_EQ(store_->get("lost/2", kLong), "closed\nnode");
}

TEST_F(PresenceTest, OfOneThatFallsSilentPublishesItsWill) {
  const store::Socket frozen = attend_once(milliseconds(20));
  EXPECT_EQ(store_->get("lost", kLong), "silent\nnode 1");
}

TEST_F(PresenceTest, KeepsTheValueOfTheFirstThatWasLost) {
  store_->set("lost", "node 7");
  { const store::Socket dies = attend_once(kLong); }
  EXPECT_EQ(store_->get("left/1", kLong), "closed\nnode 1");
  EXPECT_EQ(store_->get("lost", kLong), "node 7");
}

TEST_F(PresenceTest, LastsLongerThanItsSilenceByHeartbeats) {
  const Presence presence(address(), {.keys = {"lost"}, .will = "node 1", .silence = milliseconds(600)}, kLong);
  EXPECT_THROW(store_->wait({"lost"}, milliseconds(1500)), TimeoutError);
  EXPECT_EQ(presence.lost(), "");
}

TEST_F(PresenceTest, SaysThatTheServerIsLost) {
  const Presence presence(address(), {.keys = {"lost"}, .will = "node 1", .silence = milliseconds(60)}, kLong);
  server_.reset();
  pollfd entry{presence.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
  EXPECT_EQ(presence.lost(), "closed");
}

}  // namespace presence_test
}  // namespace lockstep
