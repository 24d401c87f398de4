// SPDX-License-Identifier: Apache-2.0
// How long a rank waits for others, and which rank is blamed if one does not come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "comm/core/patience.h"
#include "comm/network/network_state.h"
#include "comm/network/roll_call.h"
#include "comm/wiring/meeting_watch.h"
#include "lockstep/base/error.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {
namespace patience_test {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimePoint at(int second) { return TimePoint(seconds(second)); }

TEST(Patience, EndsWhenTheLauncherSays) {
  Patience patience;
  EXPECT_EQ(patience.end(at(103), at(100), at(100)), at(103));
  EXPECT_EQ(patience.end(at(103), at(102), at(102)), at(103));
  EXPECT_EQ(patience.end(at(105), at(102), at(102)), at(105)) << "it says so again";
}

TEST(Patience, HoldsOverATimeInWhichTheJobWasSuspended) {
  Patience patience;
  EXPECT_EQ(patience.end(at(103), at(100), at(100)), at(103));
  EXPECT_EQ(patience.end(at(103), at(700), at(100)), at(103)) << "600 s later, which this rank slept through";
  EXPECT_EQ(patience.end(at(704), at(701), at(101)), at(104));
}

TEST(Patience, LeavesTheLauncherTimeToGoOnAfterAStop) {
  Patience patience;
  (void)patience.end(at(101), at(100), at(100));
  EXPECT_EQ(patience.end(at(101), at(701), at(101)), at(103));
  EXPECT_EQ(patience.end(at(101), at(702), at(102)), at(103)) << "once";
}

TEST(Patience, ThatWasOverBeforeAStopIsOverAfterIt) {
  Patience patience;
  (void)patience.end(at(101), at(100), at(100));
  (void)patience.end(at(101), at(105), at(105));
  EXPECT_EQ(patience.end(at(101), at(705), at(105)), at(101));
}

TEST(Patience, IsNoneWhereTheLauncherHasSaidNothing) {
  Patience patience;
  EXPECT_LE(patience.end(TimePoint(), at(100), at(90)), at(90));
}

constexpr auto kLong = seconds(60);

class MeetingWatchTest : public ::testing::Test {
 protected:
  MeetingPlace place(int rank) const {
    return {.address = {.host = "127.0.0.1", .port = server_.port(), .token = token_},
            .timeout = kLong,
            .job = "job/",
            .prefix = "meeting/",
            .rank = rank,
            .host = "host"};
  }
  std::shared_ptr<Store> connect() const { return with_prefix(connect_store(place(0).address, kLong), "job/"); }

  const std::string token_ = make_token();
  StoreServer server_{{.host = "127.0.0.1", .port = 0, .token = token_}};
};

TEST_F(MeetingWatchTest, EndsTheWaitsForARankThatDies) {
  const pid_t dies = ::fork();
  if (dies == 0) {
    const MeetingWatch watch(place(2), connect());
    ::_exit(0);  // silently, like a killed rank
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
  other.report(record);
  EXPECT_THROW(store->wait({"never"}, kLong), PeerError);
  EXPECT_THAT(words_of(*watch.failure()), HasSubstr("picture 7 is broken"));
}

TEST_F(MeetingWatchTest, DoesNotSeeTheEndOfARankOfAnotherJob) {
  const auto store = connect();
  const MeetingWatch watch(place(1), store);
  MeetingPlace elsewhere = place(2);
  elsewhere.job = "other-job/";
  MeetingWatch(elsewhere, with_prefix(connect_store(elsewhere.address, kLong), "other-job/"))
      .report(record_of(DataError("picture 7 is broken")));
  store->set("key", "value");
  EXPECT_FALSE(watch.failure());
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

// The rank that is blamed after a failure over sockets: every rank that gives up also breaks the others' connections.

World world_of(int size, std::vector<int> speakers = {}) {
  World world{.rank = 0, .size = size};
  world.speakers = std::move(speakers);
  return world;
}

TEST(BlamedRank, IsTheOneThatDidNotAnswer) { EXPECT_EQ(blamed_rank({{0, 2}, {1, 2}}, 2, world_of(3)), 2); }

TEST(BlamedRank, IsNotOneThatAnsweredThoughItWasSuspected) {
  EXPECT_EQ(blamed_rank({{0, 2}, {1, 0}}, 0, world_of(3)), 2);
}

TEST(BlamedRank, OfSeveralSilentOnesIsTheOneThatSomebodyCouldNotReach) {
  EXPECT_EQ(blamed_rank({{0, 3}, {2, 0}}, 0, world_of(4)), 3);
}

TEST(BlamedRank, IsTheSuspectWhereNobodyCouldBeAsked) { EXPECT_EQ(blamed_rank({}, 1, world_of(3)), 1); }

TEST(BlamedRank, IsTheSuspectWhereAllAnswered) { EXPECT_EQ(blamed_rank({{0, 1}, {1, 0}}, 1, world_of(2)), 1); }

TEST(BlamedRank, MayBeOneThatDoesNotSpeakItself) {
  EXPECT_EQ(blamed_rank({{0, 1}, {2, 0}}, 0, world_of(4, {0, 2})), 1);
  EXPECT_EQ(blamed_rank({{0, 2}}, 2, world_of(4, {0, 2})), 2);
}

TEST(RollCall, AfterATimeoutAsksForATwentiethOfItAtMost) {
  using std::chrono::milliseconds;
  EXPECT_EQ(suspect_limit_after(milliseconds(5000)), milliseconds(250));
  EXPECT_EQ(suspect_limit_after(milliseconds(100)), milliseconds(50));
  EXPECT_EQ(suspect_limit_after(milliseconds(300'000)), kSuspectLimit);
}

TEST(RollCall, GivesThePresentTheSameAnswerWhateverTheySuspect) {
  const auto store = make_local_store();
  const auto ask = [&](int rank, int suspect, RollCall& answers) {
    World world{.rank = rank, .size = 3, .hosts = {}, .store = store, .prefix = "group/"};
    answers = call_roll(world, suspect);
  };
  RollCall of_zero;
  RollCall of_one;
  std::thread other([&] { ask(1, 0, of_one); });
  ask(0, 2, of_zero);
  other.join();
  EXPECT_EQ(of_zero, (RollCall{{0, 2}, {1, 0}}));
  EXPECT_EQ(of_one, of_zero);
  EXPECT_THAT(absent_ranks(of_zero, world_of(3)), ElementsAre(2));
}

/// The error on rank 0 of two after its connection to rank 1 ended for the reason `why`.
std::string failure_of_two(bool other_answers, const std::string& why) {
  const auto store = make_local_store();
  const World world{.rank = 0, .size = 2, .hosts = {"here", "there"}, .store = store, .prefix = "group/"};
  World others = world;
  others.rank = 1;
  std::thread other([&] {
    if (other_answers) (void)call_roll(others, 1);
  });
  NetworkState state(world);
  Collective collective;
  collective.timeout = seconds(60);
  std::string said;
  try {
    throw_failure(state, {collective, 1, false, why});
  } catch (const PeerError& error) {
    said = error.what();
  }
  other.join();
  return said;
}

TEST(LostConnection, WithARankThatAnswersIsNotItsDeath) {
  EXPECT_THAT(failure_of_two(true, "cannot decrypt: bad record mac"),
              HasSubstr("the connection with rank 1 on there was lost, but its process is alive: cannot decrypt"));
}

TEST(LostConnection, WithARankThatDoesNotAnswerIsItsDeath) {
  EXPECT_THAT(failure_of_two(false, "the other end has closed the connection"), HasSubstr("rank 1 on there died"));
}

}  // namespace patience_test
}  // namespace lockstep::comm
