// SPDX-License-Identifier: Apache-2.0
// Present clients, and the timer that measures how long they have been silent.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/store/presence.h"
#include "store/door.h"
#include "store/stepped_timer.h"
#include "store/wire.h"

namespace lockstep {
namespace presence_test {

using std::chrono::milliseconds;
using store::FrameWriter;
using store::Verb;

constexpr auto kLong = std::chrono::seconds(60);

// Acts like a crowded store: closes the first connections, like a server with too many strangers, and passes a
// later one on to the server.
class CrowdedDoor {
 public:
  CrowdedDoor(int closed, std::uint16_t server) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, closed, server] { serve(closed, server); });
  }
  ~CrowdedDoor() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  CrowdedDoor(const CrowdedDoor&) = delete;
  CrowdedDoor& operator=(const CrowdedDoor&) = delete;

  std::uint16_t port = 0;

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void serve(int closed, std::uint16_t server) const {
    for (int i = 0; i < closed; ++i) {
      const UniqueFd gone(::accept(listener_.get(), nullptr, nullptr));
      if (!gone.valid()) return;
    }
    const UniqueFd outside(::accept(listener_.get(), nullptr, nullptr));
    const UniqueFd inside(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(server);
    if (::connect(inside.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    pollfd both[] = {{outside.get(), POLLIN, 0}, {inside.get(), POLLIN, 0}};
    char bytes[4096];
    while (::poll(both, 2, -1) > 0) {
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        const ssize_t got = ::recv(both[i].fd, bytes, sizeof bytes, 0);
        if (got <= 0) return;
        (void)!::send(both[1 - i].fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
      }
    }
  }

  const UniqueFd listener_;
  std::thread thread_;
};

class PresenceTest : public ::testing::Test {
 protected:
  StoreAddress address() const { return {.host = "127.0.0.1", .port = server_->port(), .token = token_}; }

  // A client that announces itself once, by hand, and then does nothing more.
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

TEST_F(PresenceTest, OfOneThatGoesWithoutHavingLeftPublishesItsWill) {
  {
    Presence presence(address(), {.keys = {"lost"}, .will = "node 1"}, kLong);
    presence.abandon();
  }
  EXPECT_EQ(store_->get("lost", kLong), "closed\nnode 1");
}

TEST_F(PresenceTest, BeginsThoughStrangersCrowdTheDoor) {
  const CrowdedDoor door(3, server_->port());
  StoreAddress crowded = address();
  crowded.port = door.port;
  {
    const Presence presence(crowded, {.keys = {"lost"}, .will = "node 1"}, kLong);
    EXPECT_EQ(presence.lost(), "");
  }
  EXPECT_EQ(store_->try_get("lost"), std::nullopt);
}

// A listener with a full queue ignores further calls, like a network that loses the packets.
TEST(Door, IsCalledAgainUntilACallIsAnswered) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(first.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  auto opened = std::async(std::launch::async, [port = ntohs(address.sin_port)] {
    const StoreAddress store{.port = port, .token = make_token()};
    return store::open_among_strangers(store, SystemClock::instance().now() + kLong, milliseconds(20));
  });
  EXPECT_EQ(opened.wait_for(milliseconds(200)), std::future_status::timeout) << "it has given up";
  listener.reset();
  EXPECT_EQ(opened.get().socket.error(), "Connection refused");
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

namespace lockstep::store {
namespace presence_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StepCount, CountsEachStepAsItWasPlannedHoweverLongTheProcessSleptThroughIt) {
  StepCount count(seconds(6));
  milliseconds sum{0};
  int steps = 0;
  for (milliseconds step = count.next(); step.count() > 0; step = count.next()) {
    EXPECT_LE(step, milliseconds(6000 / 16)) << "a job that was suspended loses no more";
    sum += step;
    ++steps;
  }
  EXPECT_EQ(sum, seconds(6));
  EXPECT_EQ(steps, 16);
}

TEST(StepCount, WakesNobodyOftenInALongWait) { EXPECT_EQ(StepCount(hours(24 * 365)).next(), std::chrono::minutes(1)); }

TEST(StepCount, OfNoTimeIsOverAtOnce) { EXPECT_EQ(StepCount(milliseconds(0)).next(), milliseconds(0)); }

TEST(SteppedTimer, CallsOnceAtItsEnd) {
  asio::io_context io;
  SteppedTimer timer(io.get_executor());
  int calls = 0;
  timer.start(milliseconds(20), [&] { ++calls; });
  io.run();
  EXPECT_EQ(calls, 1);
}

TEST(SteppedTimer, DoesNotCallWhenItWasStartedAnewOrCancelled) {
  asio::io_context io;
  SteppedTimer timer(io.get_executor());
  int first = 0;
  int second = 0;
  timer.start(milliseconds(0), [&] { ++first; });
  timer.start(milliseconds(0), [&] { ++second; });
  io.run();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  io.restart();
  timer.start(milliseconds(0), [&] { ++first; });
  timer.cancel();
  io.run();
  EXPECT_EQ(first, 0);
}

// The process is stopped for several times the limit, and its timer thread with it.
TEST(SteppedTimer, OutlastsATimeInWhichItsProcessWasStopped) {
  asio::io_context io;
  SteppedTimer timer(io.get_executor());
  bool is_over = false;
  timer.start(milliseconds(160), [&] { is_over = true; });
  std::this_thread::sleep_for(milliseconds(500));
  io.poll();
  EXPECT_FALSE(is_over);
  io.run();
  EXPECT_TRUE(is_over);
}

}  // namespace presence_test
}  // namespace lockstep::store
