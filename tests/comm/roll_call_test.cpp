// SPDX-License-Identifier: Apache-2.0
// Who is named after a failure over sockets, where every rank that gives up breaks the others' connections too.
#include "comm/backends/gloo/roll_call.h"

#include <gmock/gmock.h>

#include <thread>

#include "lockstep/store/store.h"

namespace lockstep::comm {
namespace roll_call_test {

using ::testing::ElementsAre;

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

}  // namespace roll_call_test
}  // namespace lockstep::comm
