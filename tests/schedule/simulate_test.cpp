// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule/simulate.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::schedule {
namespace simulate_test {

/// 100 ms of computation; buckets at 60 and 90 ms, for which the rank waits at 90 ms.
MeasuredStep step_of(double scale = 1) {
  return {.compute_s = 0.1 * scale,
          .backward_s = 0.03 * scale,
          .calls = {{.bytes = 1'000'000, .bucket = 0, .called_s = 0.06 * scale, .waited_s = 0.09 * scale},
                    {.bytes = 1'000'000, .bucket = 1, .called_s = 0.09 * scale, .waited_s = 0.09 * scale}}};
}

TEST(Simulate, OfOneRankIsItsOwnComputation) {
  const Prediction found = simulate({.steps = {step_of()}}, {});
  EXPECT_NEAR(found.step_s, 0.1, 1e-9);
  EXPECT_NEAR(found.waiting_s, 0, 1e-9);
}

TEST(Simulate, LeavesTheCopiesIntoBucketsOutOnOneRank) {
  const HostCosts host{.copy_bytes_per_s = 1e8};
  EXPECT_NEAR(simulate({.steps = {step_of()}}, {.host = host}).step_s, 0.1 - 0.02, 1e-9);
  EXPECT_NEAR(simulate({.steps = {step_of()}}, {.machines = 2, .host = host}).step_s, 0.1, 1e-9);
}

TEST(Simulate, LetsARankWithoutNeighboursComputeFaster) {
  const Workload measured{.ranks = 2, .ranks_per_machine = 2, .alone = 0.8, .steps = {step_of()}};
  EXPECT_NEAR(simulate(measured, {}).step_s, 0.08, 1e-9);
  EXPECT_NEAR(simulate(measured, {.machines = 2}).compute_s, 0.08, 1e-9);
  EXPECT_NEAR(simulate(measured, {.gpus = 2}).compute_s, 0.1, 1e-9);
  Workload apart = measured;
  apart.ranks_per_machine = 1;  // the measured ranks had no neighbours
  EXPECT_NEAR(simulate(apart, {}).step_s, 0.1, 1e-9);
}

TEST(Simulate, PlacesTheBucketsOfAFasterRankEarlier) {
  // A bucket takes 20 ms: the first is called at 48 ms and hidden, the second at 72 ms.
  const Workload measured{.ranks_per_machine = 2, .alone = 0.8, .steps = {step_of()}};
  EXPECT_NEAR(simulate(measured, {.machines = 2, .network = {.bytes_per_s = 50e6}}).step_s, 0.1, 1e-4);
}

TEST(AloneShare, AddsTheCopiesIntoBucketsThatOneRankDoesNotMake) {
  const Workload measured{.steps = {step_of(0.9), step_of(), step_of(1.4)}};
  EXPECT_NEAR(alone_share(measured, 0.06, 1e8), 0.8, 1e-9);  // 2 MB take 20 ms
  EXPECT_NEAR(alone_share(measured, 0.06, 0), 0.6, 1e-9);
  EXPECT_NEAR(alone_share(measured, 0.2, 1e8), 1, 1e-9);
}

TEST(Simulate, HidesWhatIsReducedWhileBackwardGoesOn) {
  // A bucket takes 2 * 0.5 MB / 50 MB/s = 20 ms: the first is hidden, the second is waited for.
  const Cluster two{.machines = 2, .network = {.bytes_per_s = 50e6}};
  const Prediction found = simulate({.steps = {step_of()}}, two);
  EXPECT_NEAR(found.step_s, 0.12, 1e-4);
  EXPECT_NEAR(found.compute_s, 0.1, 1e-9);
  EXPECT_NEAR(found.waiting_s, 0.02, 1e-4);
}

TEST(Simulate, StartsABucketOnlyAfterTheOneBefore) {
  // 80 ms each: the first ends at 140, the second at 220; 10 ms of computation follow.
  const Cluster two{.machines = 2, .network = {.bytes_per_s = 12.5e6}};
  EXPECT_NEAR(simulate({.steps = {step_of()}}, two).step_s, 0.23, 1e-3);
}

TEST(Simulate, CountsThreeRoundTripsForEachLargeCollective) {
  const Cluster two{.machines = 2, .network = {.latency_s = 0.01}};
  // The first bucket ends at 60 + 60 ms, the second 60 ms later; 10 ms follow.
  EXPECT_NEAR(simulate({.steps = {step_of()}}, two).step_s, 0.19, 0.011);
}

TEST(Simulate, LetsAllRanksWaitForTheSlowest) {
  const Workload workload{.steps = {step_of(), step_of(), step_of(2)}};
  const Cluster many{.machines = 64};
  EXPECT_NEAR(simulate(workload, many, {.is_even = true}).step_s, 0.1, 1e-6);
  const Prediction uneven = simulate(workload, many);
  EXPECT_GT(uneven.step_s, 0.18);
  EXPECT_LT(uneven.compute_s, 0.15);
}

TEST(Simulate, DoesNotWaitForACollectiveThatNobodyNeedsYet) {
  MeasuredStep step = step_of();
  step.calls.push_back({.bytes = 8, .called_s = 0.095, .waited_s = -1});
  const Cluster two{.machines = 2, .network = {.latency_s = 0.004}};
  const double without = simulate({.steps = {step_of()}}, two).step_s;
  EXPECT_NEAR(simulate({.steps = {step}}, two).step_s, without, 1e-3);
  step.calls.back().waited_s = 0.095;
  EXPECT_GT(simulate({.steps = {step}}, two).step_s, without + 0.014);
}

TEST(Simulate, GivesTheSameResultAgain) {
  const Workload workload{.steps = {step_of(), step_of(1.1), step_of(1.3)}};
  const Cluster cluster{.gpus = 4, .machines = 8, .network = {.bytes_per_s = 1e8, .latency_s = 1e-4}};
  EXPECT_EQ(simulate(workload, cluster).step_s, simulate(workload, cluster).step_s);
}

TEST(Simulate, RefusesNothingToSimulate) {
  EXPECT_THROW((void)simulate({}, {}), UsageError);
  EXPECT_THROW((void)simulate({.steps = {step_of()}}, {.gpus = 0}), UsageError);
}

}  // namespace simulate_test
}  // namespace lockstep::schedule
