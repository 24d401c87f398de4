// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/collective_phases.h"

namespace lockstep::schedule {
namespace phases_test {

using ::testing::ElementsAre;

std::vector<std::pair<Among, std::int64_t>> messages(const Call& call, const Cluster& cluster) {
  std::vector<std::pair<Among, std::int64_t>> all;
  for (const Phase& phase : phases_of(call, cluster)) all.emplace_back(phase.among, phase.bytes);
  return all;
}

TEST(Phases, OfOneRankAreNone) { EXPECT_TRUE(phases_of({.bytes = 100}, {}).empty()); }

TEST(Phases, OfAFlatAllReduceCompareThenSendAPartToEachAndTheResultAround) {
  const Cluster four{.machines = 4};
  EXPECT_THAT(
      messages({.bytes = 400'000}, four),
      ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kAll, 100'000}, std::pair{Among::kAll, 100'000}));
  EXPECT_THAT(messages({.bytes = 1000}, four), ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kAll, 1000}));
}

TEST(Phases, OfOtherFlatCollectivesSendWhatTheyMove) {
  const Cluster four{.machines = 4};
  EXPECT_THAT(messages({.kind = CallKind::kBarrier}, four), ElementsAre(std::pair{Among::kAll, 40}));
  EXPECT_THAT(messages({.kind = CallKind::kReduceScatter, .bytes = 400}, four),
              ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kAll, 100}));
  EXPECT_THAT(messages({.kind = CallKind::kAllGather, .bytes = 400}, four),
              ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kAll, 100}));
  EXPECT_THAT(messages({.kind = CallKind::kBroadcast, .bytes = 400}, four),
              ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kRoot, 400}));
}

TEST(Phases, OfAHierarchyCrossTheNetworkOnceForEachMachine) {
  const Cluster cluster{.gpus = 8, .machines = 4};
  EXPECT_THAT(messages({.bytes = 400'000}, cluster),
              ElementsAre(std::pair{Among::kHost, 0}, std::pair{Among::kLeaders, 40}, std::pair{Among::kHost, 200'000},
                          std::pair{Among::kLeaders, 100'000}, std::pair{Among::kLeaders, 100'000},
                          std::pair{Among::kHost, 0}));
}

TEST(Phases, OfOtherCollectivesOfAHierarchyGoThroughItsLeadersToo) {
  const Cluster cluster{.gpus = 8, .machines = 4};
  EXPECT_THAT(messages({.kind = CallKind::kReduceScatter, .bytes = 400'000}, cluster),
              ElementsAre(std::pair{Among::kHost, 0}, std::pair{Among::kLeaders, 40}, std::pair{Among::kHost, 200'000},
                          std::pair{Among::kLeaders, 100'000}, std::pair{Among::kHost, 0}));
  const Call gather{.kind = CallKind::kAllGather, .bytes = 400'000};
  EXPECT_THAT(messages(gather, cluster),
              ElementsAre(std::pair{Among::kHost, 0}, std::pair{Among::kLeaders, 40}, std::pair{Among::kHost, 0},
                          std::pair{Among::kLeaders, 100'000}, std::pair{Among::kHost, 0}));
  EXPECT_EQ(phases_of(gather, cluster).at(2).copied, 12'500) << "its own part goes into the leader's memory";
  EXPECT_EQ(phases_of(gather, cluster).at(4).copied, 400'000) << "all parts come out of it";
  EXPECT_THAT(messages({.kind = CallKind::kBroadcast, .bytes = 400}, cluster),
              ElementsAre(std::pair{Among::kHost, 0}, std::pair{Among::kLeaders, 40}, std::pair{Among::kHost, 0},
                          std::pair{Among::kRootOfLeaders, 400}, std::pair{Among::kHost, 0}));
}

TEST(Phases, OfMachinesThatAreNoSubtreeSendSeveralRows) {
  // Three ranks a machine: ranks 3, 4 and 5 are no subtree, but 3 and (4, 5) are.
  const auto found = messages({.bytes = 400'000}, {.gpus = 3, .machines = 2});
  EXPECT_EQ(found.at(3), (std::pair{Among::kLeaders, std::int64_t{400'000}}));
  EXPECT_EQ(found.at(4), (std::pair{Among::kLeaders, std::int64_t{200'000}}));
  // The machine that has most counts: of five ranks, 0 to 3 and 4 are two subtrees; 5, (6, 7) and (8, 9) are three.
  EXPECT_EQ(messages({.bytes = 400'000}, {.gpus = 5, .machines = 2}).at(3),
            (std::pair{Among::kLeaders, std::int64_t{600'000}}));
}

/// How far the messages of each phase go; 0: to all.
std::vector<int> distances(const Call& call, const Cluster& cluster) {
  std::vector<int> all;
  for (const Phase& phase : phases_of(call, cluster)) all.push_back(phase.distance);
  return all;
}

TEST(Phases, AmongMoreThanEightCompareAndReduceInRoundsThatDoubleWhatIsKnown) {
  const Cluster eight{.machines = 8};
  const Cluster nine{.machines = 9};
  EXPECT_THAT(distances({.bytes = 1000}, eight), ElementsAre(0, 0));
  EXPECT_THAT(distances({.bytes = 1000}, nine), ElementsAre(1, 2, 4, 8, 1, 2, 4, 8));
  EXPECT_THAT(messages({.bytes = 1000}, nine),
              ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kAll, 80}, std::pair{Among::kAll, 160},
                          std::pair{Among::kAll, 40}, std::pair{Among::kAll, 1000}, std::pair{Among::kAll, 2000},
                          std::pair{Among::kAll, 4000}, std::pair{Among::kAll, 1000}));
  // Larger sums are still parts to each and results around.
  EXPECT_THAT(distances({.bytes = 400'000}, nine), ElementsAre(1, 2, 4, 8, 0, 0));
  EXPECT_THAT(distances({.kind = CallKind::kBarrier}, {.machines = 1024}),
              ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256, 512));
}

TEST(Phases, OfManyMachinesDoSoAmongTheirLeaders) {
  const Cluster sixteen{.gpus = 8, .machines = 16};
  EXPECT_THAT(distances({.bytes = 1000}, sixteen), ElementsAre(0, 1, 2, 4, 8, 0, 1, 2, 4, 8, 0));
  EXPECT_EQ(messages({.bytes = 1000}, sixteen).at(9), (std::pair{Among::kLeaders, std::int64_t{8000}}));
  // Machines with other numbers of rows send them to each at once.
  EXPECT_THAT(distances({.bytes = 1000}, {.gpus = 5, .machines = 16}), ElementsAre(0, 1, 2, 4, 8, 0, 0, 0));
}

TEST(Phases, InMemorySendNothing) {
  EXPECT_THAT(messages({.bytes = 400'000}, {.gpus = 4}), ElementsAre(std::pair{Among::kHost, 400'000}));
}

}  // namespace phases_test
}  // namespace lockstep::schedule
