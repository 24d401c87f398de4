// SPDX-License-Identifier: Apache-2.0
// A group of nodes with one in it that holds the token and means it ill.
#include <gmock/gmock.h>

#include <string>

#include "launch/nodes/group.h"

namespace lockstep::launch {
namespace group_lies_test {

using Kind = Decision::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GroupWithALiar : public ::testing::Test {
 protected:
  void join(const std::string& name, int wish) {
    Event event{.kind = Event::Kind::kJoined};
    event.node = {.id = name, .host = "host-" + name, .wish = wish, .min_nodes = 2, .max_nodes = 2};
    apply(state_, event, now_, options_);
    for (GroupNode& node : state_.nodes) node.is_serving = node.info.id == "a";
  }

  void end(const std::string& name, int of_rank, bool is_consequence = false) {
    Event event{.kind = Event::Kind::kEnded};
    event.node.id = name;
    event.end = {.is_consequence = is_consequence,
                 .code = 65,
                 .cause = FailureRecord{.type = "DataError", .message = "torn", .rank = of_rank}};
    apply(state_, event, now_, options_);
  }

  Decision next() {
    Decision decision = decide(now_, state_, options_);
    carry_out(state_, decision, now_);
    return decision;
  }

  // What the group says once node b has failed with a failure of this rank.
  std::string verdict_on(int rank) {
    end("b", rank);
    EXPECT_EQ(next().kind, Kind::kStop);
    end("a", 0, true);
    return next().cause.value_or(FailureRecord{}).message;
  }

  void SetUp() override {
    options_.min_nodes = options_.max_nodes = 2;
    join("a", 0);
    join("b", 1);
    ASSERT_EQ(next().kind, Kind::kStart);
  }

  GroupOptions options_;
  const TimePoint now_ = TimePoint() + std::chrono::seconds(1000);
  GroupState state_{now_};
};

TEST_F(GroupWithALiar, AWordAboutARankOfAnotherNodeHasItsName) {
  EXPECT_EQ(verdict_on(0), "torn (so says node 1 on host-b)");
}

TEST_F(GroupWithALiar, AWordAboutItsOwnRankIsLeftAsItIs) { EXPECT_EQ(verdict_on(1), "torn"); }

TEST_F(GroupWithALiar, OfAThousandThatWaitTheNewestIsRefused) {
  for (int i = 0; i < 1001; ++i) join("x" + std::to_string(i), 1);
  const Decision refusal = next();
  EXPECT_EQ(refusal.kind, Kind::kRefuse);
  EXPECT_THAT(refusal.ids, ElementsAre("x1000"));
  EXPECT_THAT(refusal.reason, HasSubstr("1002 nodes are here already, for a group of 2"));
  EXPECT_NE(next().kind, Kind::kRefuse);
}

}  // namespace group_lies_test
}  // namespace lockstep::launch
