// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/meeting_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace meeting_watch_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr auto kLong = seconds(60);

class MeetingWatchTest : public ::testing::Test {
 protected:
  MeetingPlace place(int rank) const {
    return {.address = {.host = "127.0.0.1", .port = server_.port(), .token = token_},
            .timeout = kLong,
            .prefix = "meeting/",
            .rank = rank,
            .host = "host"};
  }
  std::shared_ptr<Store> connect() const { return connect_store(place(0).address, kLong); }

  const std::string token_ = make_token();
  StoreServer server_{{.host = "127.0.0.1", .port = 0, .token = token_}};
};

TEST_F(MeetingWatchTest, EndsTheWaitsForARankThatDies) {
  const pid_t dies = ::fork();
  if (dies == 0) {
    const MeetingWatch watch(place(2), connect());
    ::_exit(0);  // without a word, as a rank that is killed
  }
  const auto store = connect();
  const MeetingWatch watch(place(1), store);
  EXPECT_THROW(store->wait({"never"}, kLong), PeerError);
  ASSERT_TRUE(watch.failure());
  EXPECT_EQ(watch.failure()->rank, 2);
  EXPECT_EQ(watch.failure()->host, "host");
  EXPECT_EQ(watch.failure()->kind, FailureKind::kDied);
  ::waitpid(dies, nullptr, 0);
}

TEST_F(MeetingWatchTest, EndsTheWaitsForARankThatTellsOfItsError) {
  const auto store = connect();
  const MeetingWatch watch(place(1), store);
  MeetingWatch other(place(2), connect());
  FailureRecord record = record_of(DataError("picture 7 is broken"));
  record.rank = 2;
  other.tell(record);
  EXPECT_THROW(store->wait({"never"}, kLong), PeerError);
  EXPECT_THAT(words_of(*watch.failure()), HasSubstr("picture 7 is broken"));
}

TEST_F(MeetingWatchTest, NamesRankZeroWhereItsStoreIsGone) {
  auto server = std::make_unique<StoreServer>(StoreServer::Options{.host = "127.0.0.1", .port = 0, .token = token_});
  MeetingPlace here = place(1);
  here.address.port = server->port();
  const auto store = connect_store(here.address, kLong);
  const MeetingWatch watch(here, store);
  server.reset();
  EXPECT_THROW(store->wait({"never"}, kLong), PeerError);
  const auto record = watch.failure(kLong);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->rank, 0);
}

TEST_F(MeetingWatchTest, LetsRanksLeaveThatAreConnected) {
  const auto store = connect();
  const MeetingWatch watch(place(1), store);
  { const MeetingWatch other(place(2), connect()); }
  EXPECT_EQ(store->try_get("meeting/gone"), std::nullopt);
  store->set("key", "value");
  EXPECT_FALSE(watch.failure());
}

}  // namespace meeting_watch_test
}  // namespace lockstep::comm
