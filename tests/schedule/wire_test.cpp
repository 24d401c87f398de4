// SPDX-License-Identifier: Apache-2.0
#include "schedule/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::schedule {
namespace wire_test {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<double> after(const Cluster& cluster, const Phase& phase, std::vector<double> times) {
  Wire(cluster).run(phase, times);
  return times;
}

TEST(Wire, LetsWhoComesLastWaitForARoundTripAndTheOthersForOneWay) {
  const Cluster two{.machines = 2, .network = {.latency_s = 0.01}};
  EXPECT_THAT(after(two, {.bytes = 48}, {0, 5}), ElementsAre(DoubleNear(5.01, 1e-9), DoubleNear(5.02, 1e-9)));
}

TEST(Wire, SharesAMachinesLinkAmongItsRanks) {
  // Each of two ranks sends 100 bytes to each of two ranks elsewhere.
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
  // 14,480 bytes in the first of the round trips of 0.2 s, then 28,960, then the rest at the link's rate.
  const Cluster two{.machines = 2, .network = {.bytes_per_s = 1e6, .latency_s = 0.1}};
  Wire wire(two);
  std::vector<double> times = {0, 0};
  wire.run({.bytes = 100'000}, times);
  EXPECT_NEAR(times[0], 0.2 + 3 * 0.2 + (100'000 - 7 * 14'480) * 1e-6, 0.2);
  const double first = times[0];
  times = {first, first};
  wire.run({.bytes = 100'000}, times);
  EXPECT_LT(times[0] - first, first);  // the window has grown
  const double second = times[0] - first;
  times = {100, 100};
  wire.run({.bytes = 100'000}, times);
  EXPECT_GT(times[0] - 100, second);  // and has shrunk during the pause
}

TEST(Wire, LetsARoundWaitForTwoNeighboursOnly) {
  // Rank 3 comes late: only rank 2, which hears from it, and rank 3 wait for it; rank 0 sends to it.
  const Cluster four{.machines = 4, .network = {.latency_s = 0.01}};
  EXPECT_THAT(
      after(four, {.bytes = 48, .distance = 1}, {0, 0, 0, 5}),
      ElementsAre(DoubleNear(5.01, 1e-9), DoubleNear(0.02, 1e-9), DoubleNear(5.01, 1e-9), DoubleNear(5.02, 1e-9)));
}

TEST(Wire, SharesALinkInARoundAmongTheMessagesThatLeave) {
  // Of two machines with three ranks, one message leaves each machine at a distance of one and of five, all at three.
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
  // The machines' other ranks are not there.
  const Cluster led{.gpus = 2, .machines = 2, .network = {.latency_s = 1}};
  EXPECT_THAT(after(led, {.among = Among::kLeaders, .bytes = 48, .distance = 1}, {0, 0, 0, 0}),
              ElementsAre(2, 0, 2, 0));
}

TEST(Wire, SendsFromRankZeroToAll) {
  const Cluster three{.machines = 3, .network = {.bytes_per_s = 1000, .latency_s = 0.001}};
  const auto times = after(three, {.among = Among::kRoot, .bytes = 10}, {0, 0, 0});
  EXPECT_NEAR(times[1], 0.001 + 0.001 + 0.02, 1e-9);
  EXPECT_NEAR(times[0], times[1] - 0.001, 1e-9);
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

}  // namespace wire_test
}  // namespace lockstep::schedule
