// SPDX-License-Identifier: Apache-2.0
// The handshake over the ranks' socket, with ranks as threads, among strangers of the same user.
#include "comm/backends/shm/connect.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <future>
#include <vector>

#include "comm/backends/shm/door.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace shm_connect_test {

using ::testing::HasSubstr;

constexpr auto kLong = std::chrono::seconds(60);

class ShmConnect : public ::testing::Test {
 protected:
  World rank(int number, int size = 2) const {
    World world{.rank = number, .size = size};
    world.store = store_;
    world.prefix = "group/";
    return world;
  }

  std::future<ShmConnection> start(int number) const {
    return std::async(std::launch::async, [world = rank(number)] { return connect_shm(world, kLong); });
  }

  // Connected, and silent but for `words`.
  UniqueFd stranger(const std::string& words = "") const {
    const std::string told = store_->get("group/shm/address", kLong);
    socklen_t size = 0;
    const sockaddr_un address = abstract_address(told.substr(0, told.find(' ')), size);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    (void)!::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
    return fd;
  }

  std::shared_ptr<Store> store_ = make_local_store();
};

TEST_F(ShmConnect, SilentStrangersDelayNobody) {
  auto first = start(0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 10; ++i) strangers.push_back(stranger(i % 2 == 0 ? "" : "half a hello"));
  const TimePoint before = SystemClock::instance().now();
  auto second = start(1);
  EXPECT_EQ(first.get().peers.at(0).rank, 1);
  EXPECT_EQ(second.get().peers.at(0).rank, 0);
  EXPECT_LT(SystemClock::instance().now() - before, std::chrono::seconds(2)) << "one stranger cost 2 s";
}

TEST_F(ShmConnect, ManyStrangersAreOneLineAndKeepNoRankOut) {
  ::testing::internal::CaptureStderr();
  auto first = start(0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger(std::string(sizeof(Hello), 'x')));
  for (int i = 0; i < 150; ++i) strangers.push_back(stranger());
  auto second = start(1);
  EXPECT_EQ(first.get().peers.at(0).rank, 1);
  (void)second.get();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("to the ranks' socket w"));
  std::size_t lines = 0;
  for (auto at = said.find("warn:"); at != std::string::npos; at = said.find("warn:", at + 1)) ++lines;
  EXPECT_LE(lines, 3U) << said;
}

TEST_F(ShmConnect, AnAddressThatIsTornIsAnErrorOfEveryRank) {
  store_->set("group/shm/address", std::string(500, 'x') + " " + std::string(64, 'n'));
  store_->set("group/shm/vote/0", "yes");
  EXPECT_THROW((void)connect_shm(rank(1), kLong), ResourceError);
  EXPECT_THAT(store_->get("group/shm/vote/1", kLong), HasSubstr("has 500 bytes"));
}

}  // namespace shm_connect_test
}  // namespace lockstep::comm
