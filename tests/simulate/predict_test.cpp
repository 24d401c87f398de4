// SPDX-License-Identifier: Apache-2.0
// Simulated steps: clusters, wires, phases, and published measurements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/predict.h"
#include "lockstep/simulate/variants.h"
#include "simulate/collective_phases.h"
#include "simulate/wire.h"
#include "support/comma_locale.h"

namespace lockstep::simulate {
namespace simulate_test {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// 100 ms of computation, with buckets at 60 and 90 ms; the rank waits for them at 90 ms.
MeasuredStep step_of(double scale = 1) {
  return {.compute_s = 0.1 * scale,
          .backward_s = 0.03 * scale,
          .calls = {{.bytes = 1'000'000, .bucket = 0, .called_s = 0.06 * scale, .waited_s = 0.09 * scale},
                    {.bytes = 1'000'000, .bucket = 1, .called_s = 0.09 * scale, .waited_s = 0.09 * scale}}};
}

TEST(Simulate, OfOneRankIsItsOwnComputation) {
  const Prediction found = predict({.steps = {step_of()}}, {});
  EXPECT_NEAR(found.step_s, 0.1, 1e-9);
  EXPECT_NEAR(found.waiting_s, 0, 1e-9);
}

TEST(Simulate, LeavesTheCopiesIntoBucketsOutOnOneRank) {
  const HostCosts host{.copy_bytes_per_s = 1e8};
  EXPECT_NEAR(predict({.steps = {step_of()}}, {.host = host}).step_s, 0.1 - 0.02, 1e-9);
  EXPECT_NEAR(predict({.steps = {step_of()}}, {.machines = 2, .host = host}).step_s, 0.1, 1e-9);
}

TEST(Simulate, LetsARankWithoutNeighboursComputeFaster) {
  const Workload measured{.ranks = 2, .ranks_per_machine = 2, .alone = 0.8, .steps = {step_of()}};
  EXPECT_NEAR(predict(measured, {}).step_s, 0.08, 1e-9);
  EXPECT_NEAR(predict(measured, {.machines = 2}).compute_s, 0.08, 1e-9);
  EXPECT_NEAR(predict(measured, {.gpus = 2}).compute_s, 0.1, 1e-9);
  Workload apart = measured;
  apart.ranks_per_machine = 1;  // the measured ranks had no neighbours
  EXPECT_NEAR(predict(apart, {}).step_s, 0.1, 1e-9);
}

TEST(Simulate, PlacesTheBucketsOfAFasterRankEarlier) {
  // A bucket takes 20 ms: the first is called at 48 ms and hidden, the second at 72 ms.
  const Workload measured{.ranks_per_machine = 2, .alone = 0.8, .steps = {step_of()}};
  EXPECT_NEAR(predict(measured, {.machines = 2, .network = {.bytes_per_s = 50e6}}).step_s, 0.1, 1e-4);
}

TEST(AloneShare, AddsTheCopiesIntoBucketsThatOneRankDoesNotMake) {
  const Workload measured{.steps = {step_of(0.9), step_of(), step_of(1.4)}};
  EXPECT_NEAR(alone_share(measured, 0.06, 1e8), 0.8, 1e-9);  // 2 MB take 20 ms
  EXPECT_NEAR(alone_share(measured, 0.06, 0), 0.6, 1e-9);
  EXPECT_NEAR(alone_share(measured, 0.2, 1e8), 1, 1e-9);
}

TEST(Simulate, HidesWhatIsReducedWhileBackwardGoesOn) {
  // A bucket takes 2 * 0.5 MB / 50 MB/s = 20 ms: the first is hidden, the rank waits for the second.
  const Cluster two{.machines = 2, .network = {.bytes_per_s = 50e6}};
  const Prediction found = predict({.steps = {step_of()}}, two);
  EXPECT_NEAR(found.step_s, 0.12, 1e-4);
  EXPECT_NEAR(found.compute_s, 0.1, 1e-9);
  EXPECT_NEAR(found.waiting_s, 0.02, 1e-4);
}

TEST(Simulate, StartsABucketOnlyAfterTheOneBefore) {
  // 80 ms each: the first ends at 140, the second at 220; 10 ms of computation follow.
  const Cluster two{.machines = 2, .network = {.bytes_per_s = 12.5e6}};
  EXPECT_NEAR(predict({.steps = {step_of()}}, two).step_s, 0.23, 1e-3);
}

TEST(Simulate, CountsThreeWaysForEachLargeCollective) {
  const Cluster two{.machines = 2, .network = {.latency_s = 0.01}};
  // The first bucket ends at 60 + 30 ms, the second 30 ms later; 10 ms follow.
  EXPECT_NEAR(predict({.steps = {step_of()}}, two).step_s, 0.13, 1e-9);
}

TEST(Simulate, CountsOneWayForASmallSum) {
  MeasuredStep step = step_of();
  step.calls = {{.bytes = 8, .called_s = 0.095, .waited_s = 0.095}};
  EXPECT_NEAR(predict({.steps = {step}}, {.machines = 2, .network = {.latency_s = 0.01}}).step_s, 0.11, 1e-9);
}

TEST(Simulate, LetsAllRanksWaitForTheSlowest) {
  const Workload workload{.steps = {step_of(), step_of(), step_of(2)}};
  const Cluster many{.machines = 64};
  EXPECT_NEAR(predict(workload, many, {.is_even = true}).step_s, 0.1, 1e-6);
  const Prediction uneven = predict(workload, many);
  EXPECT_GT(uneven.step_s, 0.18);
  EXPECT_LT(uneven.compute_s, 0.15);
}

TEST(Simulate, DoesNotWaitForACollectiveThatNobodyNeedsYet) {
  MeasuredStep step = step_of();
  step.calls.push_back({.bytes = 8, .called_s = 0.095, .waited_s = -1});
  const Cluster two{.machines = 2, .network = {.latency_s = 0.004}};
  const double without = predict({.steps = {step_of()}}, two).step_s;
  EXPECT_NEAR(predict({.steps = {step}}, two).step_s, without, 1e-3);
  step.calls.back().waited_s = 0.095;
  EXPECT_NEAR(predict({.steps = {step}}, two).step_s, without + 0.004, 1e-9);  // one way
}

TEST(Simulate, GivesTheSameResultAgain) {
  const Workload workload{.steps = {step_of(), step_of(1.1), step_of(1.3)}};
  const Cluster cluster{.gpus = 4, .machines = 8, .network = {.bytes_per_s = 1e8, .latency_s = 1e-4}};
  EXPECT_EQ(predict(workload, cluster).step_s, predict(workload, cluster).step_s);
}

TEST(Simulate, RefusesNothingToSimulate) {
  EXPECT_THROW((void)predict({}, {}), UsageError);
  EXPECT_THROW((void)predict({.steps = {step_of()}}, {.gpus = 0}), UsageError);
}

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
}

TEST(Phases, OfASmallFlatAllReduceAreOneExchangeInWhichRanksCompareToo) {
  const Cluster eight{.machines = 8};
  EXPECT_THAT(messages({.bytes = 1000}, eight), ElementsAre(std::pair{Among::kAll, 1040}));
  EXPECT_THAT(messages({.bytes = 32 << 10}, eight), ElementsAre(std::pair{Among::kAll, 40 + (32 << 10)}));
  EXPECT_EQ(messages({.bytes = (32 << 10) + 1}, eight).size(), 3U);
  EXPECT_EQ(messages({.kind = CallKind::kReduceScatter, .bytes = 1000}, eight).size(), 2U);
}

TEST(Phases, OfASmallAllReduceOfAHierarchyCompareFirst) {
  EXPECT_THAT(messages({.bytes = 1000}, {.gpus = 2, .machines = 2}),
              ElementsAre(std::pair{Among::kHost, 0}, std::pair{Among::kLeaders, 40}, std::pair{Among::kHost, 500},
                          std::pair{Among::kLeaders, 1000}, std::pair{Among::kHost, 0}));
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
  // Three ranks per machine: ranks 3, 4 and 5 do not form one subtree, but 3 and (4, 5) form two.
  const auto found = messages({.bytes = 400'000}, {.gpus = 3, .machines = 2});
  EXPECT_EQ(found.at(3), (std::pair{Among::kLeaders, std::int64_t{400'000}}));
  EXPECT_EQ(found.at(4), (std::pair{Among::kLeaders, std::int64_t{200'000}}));
  // The machine with the most subtrees counts: with five ranks per machine, 0 to 3 and 4 form two subtrees; 5, (6, 7)
  // and (8, 9) form three.
  EXPECT_EQ(messages({.bytes = 400'000}, {.gpus = 5, .machines = 2}).at(3),
            (std::pair{Among::kLeaders, std::int64_t{600'000}}));
}

/// The distance of each phase's messages; 0 means to all.
std::vector<int> distances(const Call& call, const Cluster& cluster) {
  std::vector<int> all;
  for (const Phase& phase : phases_of(call, cluster)) all.push_back(phase.distance);
  return all;
}

TEST(Phases, AmongMoreThanEightCompareAndReduceInRoundsThatDoubleWhatIsKnown) {
  const Cluster eight{.machines = 8};
  const Cluster nine{.machines = 9};
  EXPECT_THAT(distances({.bytes = 1000}, eight), ElementsAre(0));
  EXPECT_THAT(distances({.bytes = 1000}, nine), ElementsAre(1, 2, 4, 8, 1, 2, 4, 8));
  EXPECT_THAT(messages({.bytes = 1000}, nine),
              ElementsAre(std::pair{Among::kAll, 40}, std::pair{Among::kAll, 80}, std::pair{Among::kAll, 160},
                          std::pair{Among::kAll, 40}, std::pair{Among::kAll, 1000}, std::pair{Among::kAll, 2000},
                          std::pair{Among::kAll, 4000}, std::pair{Among::kAll, 1000}));
  // Larger sums still send parts to each rank and results around the ring.
  EXPECT_THAT(distances({.bytes = 400'000}, nine), ElementsAre(1, 2, 4, 8, 0, 0));
  EXPECT_THAT(distances({.kind = CallKind::kBarrier}, {.machines = 1024}),
              ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256, 512));
}

TEST(Phases, OfManyMachinesDoSoAmongTheirLeaders) {
  const Cluster sixteen{.gpus = 8, .machines = 16};
  EXPECT_THAT(distances({.bytes = 1000}, sixteen), ElementsAre(0, 1, 2, 4, 8, 0, 1, 2, 4, 8, 0));
  EXPECT_EQ(messages({.bytes = 1000}, sixteen).at(9), (std::pair{Among::kLeaders, std::int64_t{8000}}));
  // With any other number of rows, each machine sends to all others at once.
  EXPECT_THAT(distances({.bytes = 1000}, {.gpus = 5, .machines = 16}), ElementsAre(0, 1, 2, 4, 8, 0, 0, 0));
}

TEST(Phases, InMemorySendNothing) {
  EXPECT_THAT(messages({.bytes = 400'000}, {.gpus = 4}), ElementsAre(std::pair{Among::kHost, 400'000}));
}

std::vector<double> after(const Cluster& cluster, const Phase& phase, std::vector<double> times) {
  Wire(cluster).run(phase, times);
  return times;
}

TEST(Wire, LetsWhoComesLastWaitForNobodyAndTheOthersForOneWay) {
  const Cluster three{.machines = 3, .network = {.latency_s = 0.01}};
  EXPECT_THAT(after(three, {.bytes = 48}, {0, 5, 1}),
              ElementsAre(DoubleNear(5.01, 1e-9), DoubleNear(5, 1e-9), DoubleNear(5.01, 1e-9)));
}

TEST(Wire, LetsRanksThatComeTogetherWaitForOneWay) {
  const Cluster three{.machines = 3, .network = {.latency_s = 0.01}};
  EXPECT_THAT(after(three, {.bytes = 48}, {5, 5, 5}), Each(DoubleNear(5.01, 1e-9)));
  // Rank 1's message is halfway there when rank 0 arrives last.
  EXPECT_THAT(after(three, {.bytes = 48}, {5.005, 5, 0}),
              ElementsAre(DoubleNear(5.01, 1e-9), DoubleNear(5.015, 1e-9), DoubleNear(5.015, 1e-9)));
}

TEST(Wire, SharesAMachinesLinkAmongItsRanks) {
  // Two ranks each send 100 bytes to each of two ranks on another machine.
  const Cluster cluster{.gpus = 2, .machines = 2, .network = {.bytes_per_s = 100}};
  EXPECT_THAT(after(cluster, {.bytes = 100}, {0, 0, 0, 0}), Each(DoubleNear(4, 1e-9)));
  EXPECT_THAT(after(cluster, {.among = Among::kLeaders, .bytes = 100}, {0, 0, 0, 0}),
              ElementsAre(DoubleNear(1, 1e-9), 0, DoubleNear(1, 1e-9), 0));
}

TEST(Wire, AddsTheProcessorsTimeOfEachMessage) {
  const Cluster four{.machines = 4, .host = {.message_s = 0.001, .socket_bytes_per_s = 1000}};
  EXPECT_THAT(after(four, {.bytes = 100}, {0, 0, 0, 0}), Each(DoubleNear(0.3 + 0.003, 1e-9)));
}

TEST(Wire, GivesANewConnectionASmallWindowThatDoubles) {
  // 14,480 bytes in the first 0.2 s round trip, then 28,960, then the rest at the link's rate.
  const Cluster two{.machines = 2, .network = {.bytes_per_s = 1e6, .latency_s = 0.1}};
  Wire wire(two);
  std::vector<double> times = {0, 0};
  wire.run({.bytes = 100'000}, times);
  EXPECT_NEAR(times[0], 0.1 + 2 * 0.2 + (100'000 - 3 * 14'480) * 1e-6, 1e-9);
  const double first = times[0];
  times = {first, first};
  wire.run({.bytes = 100'000}, times);
  EXPECT_LT(times[0] - first, first);  // the window has grown
  const double second = times[0] - first;
  times = {100, 100};
  wire.run({.bytes = 100'000}, times);
  EXPECT_GT(times[0] - 100, second);  // and has shrunk during the pause
}

TEST(Wire, LetsARoundWaitForOneNeighbourOnly) {
  // Rank 3 is late: only rank 2 receives from it. Rank 0 sends to rank 3 without waiting until rank 3 reads.
  const Cluster four{.machines = 4, .network = {.latency_s = 0.01}};
  EXPECT_THAT(after(four, {.bytes = 48, .distance = 1}, {0, 0, 0, 5}),
              ElementsAre(DoubleNear(0.01, 1e-9), DoubleNear(0.01, 1e-9), DoubleNear(5.01, 1e-9), DoubleNear(5, 1e-9)));
}

TEST(Wire, SharesALinkInARoundAmongTheMessagesThatLeave) {
  // With two machines of three ranks each, one message leaves each machine at distances one and five; at distance
  // three, all of them do.
  const Cluster cluster{.gpus = 3, .machines = 2, .network = {.bytes_per_s = 100}};
  const auto round = [&](int distance) {
    return after(cluster, {.bytes = 100, .distance = distance}, std::vector<double>(6, 0));
  };
  EXPECT_THAT(round(1), Each(DoubleNear(1, 1e-9)));
  EXPECT_THAT(round(3), Each(DoubleNear(3, 1e-9)));
  EXPECT_THAT(round(5), Each(DoubleNear(1, 1e-9)));
}

TEST(Wire, PaysForOneMessageARound) {
  const Cluster many{.machines = 64, .host = {.message_s = 0.001}};
  const std::vector<double> begin(64, 0);
  EXPECT_THAT(after(many, {.bytes = 48, .distance = 4}, begin), Each(DoubleNear(0.001, 1e-9)));
  EXPECT_THAT(after(many, {.bytes = 48}, begin), Each(DoubleNear(0.063, 1e-9)));
  // The other ranks of each machine do not take part.
  const Cluster led{.gpus = 2, .machines = 2, .network = {.latency_s = 1}};
  EXPECT_THAT(after(led, {.among = Among::kLeaders, .bytes = 48, .distance = 1}, {0, 0, 0, 0}),
              ElementsAre(1, 0, 1, 0));
}

TEST(Wire, SendsFromRankZeroToAll) {
  const Cluster three{.machines = 3, .network = {.bytes_per_s = 1000, .latency_s = 0.001}};
  const auto times = after(three, {.among = Among::kRoot, .bytes = 10}, {0, 0, 0});
  EXPECT_NEAR(times[1], 0.001 + 0.02, 1e-9);
  EXPECT_NEAR(times[0], times[1] - 0.001, 1e-9);
}

TEST(Wire, DoesNotLetTheRootWaitForWhoComesLate) {
  const Cluster three{.machines = 3, .network = {.latency_s = 0.01}};
  EXPECT_THAT(after(three, {.among = Among::kRoot, .bytes = 10}, {1, 5, 0}), ElementsAre(1, 5, DoubleNear(1.01, 1e-9)));
}

TEST(Wire, HasAMachinesRanksMeetInMemory) {
  const Cluster cluster{.gpus = 2, .machines = 2, .host = {.reduce_bytes_per_s = 100, .copy_bytes_per_s = 10}};
  EXPECT_THAT(after(cluster, {.among = Among::kHost, .bytes = 100, .copied = 10}, {0, 1, 2, 0}),
              ElementsAre(3, 3, 4, 4));
}

TEST(Wire, RunsDevicesInARingOrInTreesWhateverIsFaster) {
  const Cluster eight{.machines = 8, .network = {.bytes_per_s = 1000, .latency_s = 0.01}, .backend = Backend::kNccl};
  const Phase small{.among = Among::kDevices, .bytes = 1};
  EXPECT_NEAR(after(eight, small, std::vector<double>(8, 0))[0], 2 * (3 * 0.01 + 0.001), 1e-9);
  const Phase large{.among = Among::kDevices, .bytes = 8000};
  EXPECT_NEAR(after(eight, large, std::vector<double>(8, 0))[0], 2 * (7 * 0.01 + 7), 1e-9);
}

std::string refusal(const std::string& text) {
  try {
    (void)parse_link(text);
  } catch (const UsageError& error) {
    return error.message();
  }
  return "";
}

TEST(ParseLink, TakesTheRateOfTheLineAndTheTimeOfOneWay) {
  const Link link = parse_link("100Gb/5us");
  EXPECT_NEAR(link.bytes_per_s, 12.5e9 * 1448 / 1583, 1);
  EXPECT_DOUBLE_EQ(link.latency_s, 5e-6);
  EXPECT_DOUBLE_EQ(parse_link("50Mb/10ms").latency_s, 0.01);
  EXPECT_NEAR(parse_link("2.5Tb/900ns").bytes_per_s, 2.5e12 / 8 * 1448 / 1583, 1000);
  EXPECT_DOUBLE_EQ(parse_link("1Kb/0us").latency_s, 0);
}

TEST(ParseLink, NamesWhatIsWrong) {
  EXPECT_THAT(refusal("100Gb"), HasSubstr("has no '/'"));
  EXPECT_THAT(refusal("100GB/5us"), HasSubstr("has the unknown unit 'GB'"));
  EXPECT_THAT(refusal("fast/5us"), HasSubstr("has no number in 'fast'"));
  EXPECT_THAT(refusal("0Gb/5us"), HasSubstr("has no positive rate"));
  EXPECT_THAT(refusal("1Gb/-5us"), HasSubstr("has a negative latency"));
  EXPECT_THAT(refusal("nanGb/5us"), HasSubstr("has no number"));
}

TEST(ParseLink, ReadsAPointInALocaleWithADecimalComma) {
  const test::CommaLocale comma;
  EXPECT_DOUBLE_EQ(parse_link("2.5Gb/0.5ms").latency_s, 0.0005);
  EXPECT_DOUBLE_EQ(parse_link("2.5Gb/5us").bytes_per_s * 10, parse_link("25Gb/5us").bytes_per_s);
  EXPECT_THAT(refusal("2,5Gb/5us"), HasSubstr("has no number in '2,5Gb'"));
}

TEST(LinkText, HasPayloadAndOneWay) {
  EXPECT_EQ(link_text(parse_link("100Gb/5us")), "11.4 GB/s, 5 us");
  EXPECT_EQ(link_text({.bytes_per_s = 5.9e6, .latency_s = 0.01}), "5.9 MB/s, 10 ms");
  EXPECT_EQ(link_text({}), "unlimited, 0 us");
}

TEST(ParseBackend, TakesTheNamesOfComm) {
  for (const char* name : {"auto", "tcp", "shm", "shm+tcp", "nccl"}) EXPECT_EQ(backend_text(parse_backend(name)), name);
  EXPECT_THROW((void)parse_backend("mpi"), UsageError);
}

TEST(Cluster, ChoosesWhatCommWouldChoose) {
  EXPECT_EQ((Cluster{.gpus = 4, .machines = 1}).chosen(), Backend::kShm);
  EXPECT_EQ((Cluster{.gpus = 1, .machines = 4}).chosen(), Backend::kTcp);
  EXPECT_EQ((Cluster{.gpus = 2, .machines = 4}).chosen(), Backend::kHierarchical);
  EXPECT_EQ((Cluster{.gpus = 2, .machines = 4, .backend = Backend::kShm}).chosen(), Backend::kHierarchical);
  EXPECT_EQ((Cluster{.gpus = 2, .machines = 4, .backend = Backend::kTcp}).chosen(), Backend::kTcp);
}

}  // namespace simulate_test

namespace published_test {

// Simulated steps against the published numbers for PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed:
// Experiences on Accelerating Data Parallel Training", VLDB 2020): overlap makes a step with NCCL 38.0 % (ResNet50) and
// 35.2 % (BERT) faster, scaling is near-linear up to 256 GPUs, and ResNet50 is fastest with buckets of 10 to 25 MB.
//
// The paper gives no times, so these are assumptions: backward takes twice as long as forward; each part of a network
// takes time in proportion to its multiplications, with its gradients arriving evenly over that time; a machine has 8
// GPUs, a 100 Gb/s line with 5 us of latency each way, and 100 GB/s internally; one V100 computes 360 images of
// ResNet50 a second in float32, in batches of 32. Parameters and multiplications are those of the architectures.

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
/// A part of a network, in backward order.
struct Part {
  double parameters;       ///< in millions
  double multiplications;  ///< in any unit
};
// The classifier, the four stages from the last to the first, the first convolution.
const std::vector<Part> kResNet50 = {{2.049, 0.002}, {14.965, 0.81}, {7.098, 1.47},
                                     {1.220, 1.04},  {0.216, 0.68},  {0.010, 0.12}};
// BERT-base: twelve layers, then the embeddings, which are looked up.
const std::vector<Part> kBert = {{85.1, 1}, {23.8, 0}};
constexpr double kBatch = 32;
constexpr double kStep = kBatch / 360;

/// A step with one bucket per MiB of each part.
Workload model(const std::vector<Part>& parts, double step_s) {
  double all = 0;
  for (const Part& part : parts) all += part.multiplications;
  MeasuredStep step{.compute_s = step_s, .backward_s = step_s / 3};
  double done = 0;
  for (const Part& part : parts) {
    const auto bytes = static_cast<std::int64_t>(part.parameters * 4e6);
    const std::int64_t count = (bytes + kMiB - 1) / kMiB;
    for (std::int64_t i = 1; i <= count; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(count);
      step.calls.push_back({.bytes = bytes * i / count - bytes * (i - 1) / count,
                            .bucket = static_cast<int>(step.calls.size()),
                            .called_s = step_s / 3 + step_s * 2 / 3 * (done + part.multiplications * share) / all,
                            .waited_s = step_s});
    }
    done += part.multiplications;
  }
  return {.images = kBatch, .steps = {step}};
}

Workload in_buckets(const Workload& workload, std::int64_t bytes) {
  return with_buckets(workload, {.first_bytes = std::min(bytes, kMiB), .bytes = bytes});
}

/// The same buckets, all reduced after backward.
Workload without_overlap(Workload workload) {
  for (Call& call : workload.steps.front().calls) call.called_s = workload.steps.front().compute_s;
  return workload;
}

Cluster machines(int count, double line_bits_per_s) {
  return {.gpus = 8,
          .machines = count,
          .network = {.bytes_per_s = line_bits_per_s / 8, .latency_s = 5e-6},
          .local = {.bytes_per_s = 100e9, .latency_s = 5e-6},
          .backend = Backend::kNccl};
}

/// The largest saving from overlap on any line; the optimum is where sending takes about as long as backward.
double best_overlap(const Workload& model) {
  const Workload overlapped = in_buckets(model, 25 * kMiB);
  const Workload after = without_overlap(overlapped);
  double best = 0;
  for (double rate = 1e9; rate < 1e12; rate *= 1.1) {
    const Cluster four = machines(4, rate);
    best = std::max(best, 1 - predict(overlapped, four).step_s / predict(after, four).step_s);
  }
  return best;
}

TEST(Published, OverlapSavesWhatThePaperMeasured) {
  EXPECT_NEAR(best_overlap(model(kResNet50, kStep)), 0.380, 0.15 * 0.380);
  EXPECT_NEAR(best_overlap(model(kBert, kStep * 4)), 0.352, 0.15 * 0.352);
}

TEST(Published, ScalingIsNearLinearUpTo256Gpus) {
  const Workload resnet = in_buckets(model(kResNet50, kStep), 25 * kMiB);
  for (const int count : {1, 2, 4, 8, 16, 32}) {
    const double step_s = predict(resnet, machines(count, 100e9)).step_s;
    EXPECT_LT(step_s, kStep / 0.85) << count << " machines";
    EXPECT_GE(step_s, kStep);
  }
}

TEST(Published, BucketsOfTenToTwentyFiveMegabytesAreBest) {
  // Here NCCL starts a kernel for each bucket, which takes 50 us, and a 25 Gb/s line makes sending as long as backward.
  Cluster cluster = machines(2, 25e9);
  cluster.host.message_s = 50e-6;
  const Workload resnet = model(kResNet50, kStep);
  const auto step_with = [&](std::int64_t mib) { return predict(in_buckets(resnet, mib * kMiB), cluster).step_s; };
  const double good = std::min(step_with(10), step_with(25));
  EXPECT_GT(step_with(100), good * 1.02);
  for (const std::int64_t mib : {1, 2, 5, 50}) EXPECT_GT(step_with(mib), good * 0.97) << mib << " MiB";
}

}  // namespace published_test
}  // namespace lockstep::simulate
