// SPDX-License-Identifier: Apache-2.0
// The memory of a connection to the store's server, which counts towards a limit for all of them.
#include "store/frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <asio.hpp>
#include <string>
#include <utility>

namespace lockstep::store {
namespace frames_test {

constexpr std::size_t kLarge = 3U << 20U;
constexpr std::size_t kSmall = 1U << 20U;

class LargeFrame : public ::testing::Test {
 protected:
  Stream::Socket connected() {
    asio::local::stream_protocol::socket own(io_);
    asio::local::connect_pair(own, peer_);
    return Stream::Socket(std::move(own));
  }

  bool may_hold(std::size_t bytes) {
    held_ = bytes;
    most_ = std::max(most_, bytes);
    return true;
  }

  const std::string frame_ = FrameWriter(Verb::kSet).string(std::string(kLarge, 'x')).take();
  std::size_t held_ = 0;
  std::size_t most_ = 0;
  asio::io_context io_;
  asio::local::stream_protocol::socket peer_{io_};
  Frames frames_{connected(), [this](std::size_t bytes) { return may_hold(bytes); }};
};

TEST_F(LargeFrame, CountsNoLongerOnceItHasBeenHandled) {
  std::size_t got = 0;
  frames_.read(kMaxFrameBytes, [&](Frames::Read, std::string_view body) { got = body.size(); });
  asio::async_write(peer_, asio::buffer(frame_), [](std::error_code, std::size_t) {});
  io_.run();
  EXPECT_GE(got, kLarge);
  EXPECT_GE(most_, kLarge);
  EXPECT_LT(held_, kSmall);
}

TEST_F(LargeFrame, CountsNoLongerOnceItHasBeenSent) {
  std::string got(frame_.size(), ' ');
  EXPECT_TRUE(frames_.send(frame_, [] {}));
  asio::async_read(peer_, asio::buffer(got), [](std::error_code, std::size_t) {});
  io_.run();
  EXPECT_EQ(got, frame_);
  EXPECT_GE(most_, kLarge);
  EXPECT_LT(held_, kSmall);
}

}  // namespace frames_test
}  // namespace lockstep::store
