// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/lost_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace lost_node_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

const NodeName kSecondNode{.node_rank = 1, .host = "b", .first_rank = 2, .ranks = 2};

LostNode lost_at(std::int64_t time_ns) {
  LostNode lost = lost_node(kSecondNode, "silent", seconds(6));
  lost.record.time_ns = time_ns;
  return lost;
}

FailureRecord claim_of(FailureKind kind, int rank, std::int64_t time_ns) {
  return {.kind = kind, .message = "exit code 1", .rank = rank, .time_ns = time_ns};
}

TEST(LostNode, SaysWhichItWasAndWhatIsKnownOfItsEnd) {
  const auto killed = lost_node(kSecondNode, "closed", seconds(6));
  EXPECT_EQ(killed.record.kind, FailureKind::kLost);
  EXPECT_EQ(killed.record.rank, 2);
  EXPECT_EQ(killed.ranks, 2);
  EXPECT_EQ(killed.record.host, "b");
  EXPECT_EQ(killed.record.message,
            "node 1 (b, ranks 2 to 3) is lost: its launcher was killed, or its machine went down");
  const auto cut = lost_node({.node_rank = 1, .host = "b", .first_rank = 1}, "silent", seconds(6));
  EXPECT_THAT(cut.record.message, HasSubstr("node 1 (b, rank 1) is lost: no word from it for 6.0 s"));
}

TEST(LostNode, IsSilentForHalfOfTheTimeoutAtMost) {
  EXPECT_EQ(node_silence(seconds(300)), seconds(6));
  EXPECT_EQ(node_silence(seconds(8)), seconds(4));
  EXPECT_EQ(node_silence(std::chrono::milliseconds(300)), seconds(1));
}

TEST(FirstCause, IsTheClaimWhereNoNodeIsLostAndTheNodeWhereNobodyClaims) {
  const auto claim = claim_of(FailureKind::kDied, 0, 5 * kSecond);
  EXPECT_EQ(first_cause(claim, std::nullopt, seconds(6))->rank, 0);
  EXPECT_EQ(first_cause(std::nullopt, lost_at(5 * kSecond), seconds(6))->rank, 2);
  EXPECT_FALSE(first_cause(std::nullopt, std::nullopt, seconds(6)));
}

TEST(FirstCause, IsTheLostNodeAndNotTheRankThatWaitedForIt) {
  for (const FailureKind kind : {FailureKind::kTimeout, FailureKind::kPeer}) {
    EXPECT_EQ(first_cause(claim_of(kind, 0, kSecond), lost_at(100 * kSecond), seconds(6))->kind, FailureKind::kLost);
  }
}

TEST(FirstCause, IsTheLostNodeWhereARankElsewhereFailedWhileItWasSilent) {
  const auto claim = claim_of(FailureKind::kDied, 0, 94 * kSecond);  // its own library's "connection reset"
  EXPECT_EQ(first_cause(claim, lost_at(100 * kSecond), seconds(6))->kind, FailureKind::kLost);
}

TEST(FirstCause, IsARankThatFailedWellBeforeTheNodeWasLost) {
  const auto claim = claim_of(FailureKind::kDied, 0, 92 * kSecond);
  EXPECT_EQ(first_cause(claim, lost_at(100 * kSecond), seconds(6))->kind, FailureKind::kDied);
}

TEST(FirstCause, IsARankOfTheLostNodeThatCouldStillSayWhy) {
  const auto claim = claim_of(FailureKind::kFailed, 3, 99 * kSecond);
  EXPECT_EQ(first_cause(claim, lost_at(100 * kSecond), seconds(6))->rank, 3);
}

}  // namespace lost_node_test
}  // namespace lockstep::launch
