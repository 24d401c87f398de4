// SPDX-License-Identifier: Apache-2.0
// Changes that a run could benefit from: bucket plans, variants, advice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/simulate/advice.h"
#include "lockstep/simulate/bucket_plan.h"
#include "lockstep/simulate/variants.h"

namespace lockstep::simulate {
namespace advice_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Not;
using Buckets = std::vector<std::vector<std::size_t>>;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Workload workload() {
  MeasuredStep step{.compute_s = 0.3, .backward_s = 0.1, .optimizer_end_s = 0.02, .optimizer_s = 0.02};
  for (int i = 0; i < 8; ++i) {
    step.calls.push_back({.bytes = 4 * kMiB, .bucket = i, .called_s = 0.125 + 0.025 * i, .waited_s = 0.3});
  }
  return {.ranks = 2, .ranks_per_machine = 2, .images = 8, .steps = {step}};
}

const Alternative& named(const std::vector<Alternative>& list, const std::string& name) {
  return *std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.name == name; });
}

std::vector<int> ranks_of(const Plan& plan) {
  std::vector<int> ranks;
  for (const PlanPoint& point : plan.curve) ranks.push_back(point.cluster.ranks());
  return ranks;
}

TEST(MakePlan, DrawsTheCurveOfOneMachineAndThenOfWholeMachines) {
  const Plan plan = make_plan(workload(), {.cluster = {.gpus = 8, .machines = 4}});
  EXPECT_THAT(ranks_of(plan), ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024));
  EXPECT_EQ(plan.asked.cluster.ranks(), 32);
}

TEST(MakePlan, NamesWhatHoldsAStepUp) {
  const auto bottleneck = [](const Link& link, const HostCosts& host) {
    return make_plan(workload(), {.cluster = {.machines = 4, .network = link, .host = host}}).bottleneck;
  };
  EXPECT_EQ(bottleneck({.bytes_per_s = 1e11, .latency_s = 1e-6}, {}), "computation");
  EXPECT_EQ(bottleneck({.bytes_per_s = 5e7, .latency_s = 1e-6}, {}), "bandwidth");
  EXPECT_EQ(bottleneck({.bytes_per_s = 1e11, .latency_s = 0.03}, {}), "latency");
  EXPECT_EQ(bottleneck({.bytes_per_s = 1e11, .latency_s = 1e-6}, {.message_s = 0.02}), "processors");
  Workload uneven = workload();
  uneven.steps.push_back(uneven.steps.front());
  uneven.steps.push_back(uneven.steps.front());
  uneven.steps.back().compute_s *= 3;
  for (Call& call : uneven.steps.back().calls) call.called_s = call.waited_s *= 3;
  EXPECT_EQ(make_plan(uneven, {.cluster = {.machines = 64}}).bottleneck, "uneven steps");
}

TEST(MakePlan, FindsFewerBucketsBestWhereMessagesAreDear) {
  const Plan late = make_plan(workload(), {.cluster = {.machines = 4, .network = {.latency_s = 0.02}}});
  EXPECT_GT(late.best_bucket_bytes, 8 * kMiB);
  // A single bucket for everything is tried last.
  EXPECT_THAT(late.buckets, Not(Contains(Field(&Alternative::name, "buckets of 100 MiB"))));
}

TEST(MakePlan, SaysWhetherHooksHierarchyAndZeroPay) {
  const Link slow{.bytes_per_s = 1e8, .latency_s = 1e-5};
  Workload known = workload();
  known.shapes.assign(8, {1024, 1024});
  const Plan plan =
      make_plan(known, {.cluster = {.gpus = 4, .machines = 4, .network = slow, .backend = Backend::kTcp}});
  EXPECT_GT(named(plan.alternatives, "backend shm+tcp").gain, 0.5);
  EXPECT_NEAR(named(plan.alternatives, "bf16 hook").gain, 0.5, 0.1);
  EXPECT_GT(named(plan.alternatives, "PowerSGD hook, rank 1").gain, 0.7);
  EXPECT_GT(named(plan.alternatives, "ZeRO-1").step_s, 0);
  // If copying memory is as slow as the link, bf16 does not pay off.
  const Plan busy =
      make_plan(known, {.cluster = {.gpus = 4, .machines = 4, .network = slow, .host = {.copy_bytes_per_s = 5e7}}});
  EXPECT_LT(named(busy.alternatives, "bf16 hook").gain, 0);
}

TEST(MakePlan, HasNoPowerSgdWithoutShapes) {
  const Plan plan = make_plan(workload(), {.cluster = {.machines = 4}});
  EXPECT_THAT(plan.alternatives, Not(Contains(Field(&Alternative::name, "PowerSGD hook, rank 1"))));
}

TEST(MakePlan, PlansTheBucketsThatAreAskedFor) {
  const Cluster cluster{.machines = 4, .network = {.latency_s = 0.02}};
  const Plan asked = make_plan(workload(), {.cluster = cluster, .bucket_bytes = 100 * kMiB});
  EXPECT_LT(asked.asked.prediction.step_s, make_plan(workload(), {.cluster = cluster}).asked.prediction.step_s);
}

TEST(BucketPlan, ClosesTheFirstBucketEarlyAndTheOthersAtTheirLimit) {
  const std::vector<PlanItem> items(6, {.bytes = 10, .kind = "f"});
  EXPECT_EQ(plan_buckets(items, {5, 4, 3, 2, 1, 0}, {.first_bytes = 10, .bytes = 30}),
            (Buckets{{5}, {4, 3, 2}, {1, 0}}));
}

TEST(BucketPlan, LetsAParameterLargerThanABucketFillOne) {
  const std::vector<PlanItem> items{{.bytes = 5, .kind = "f"}, {.bytes = 900, .kind = "f"}, {.bytes = 5, .kind = "f"}};
  EXPECT_EQ(plan_buckets(items, {2, 1, 0}, {.first_bytes = 10, .bytes = 10}), (Buckets{{2, 1}, {0}}));
}

TEST(BucketPlan, KeepsKindsApartAndOrdersBucketsByTheirLastArrival) {
  const std::vector<PlanItem> items{{.bytes = 10, .kind = "float"},
                                    {.bytes = 10, .kind = "double"},
                                    {.bytes = 10, .kind = "float"},
                                    {.bytes = 10, .kind = "double"}};
  // The float bucket waits for parameter 0, the very last one; the double bucket is full earlier.
  EXPECT_EQ(plan_buckets(items, {3, 2, 1, 0}, {.first_bytes = 20, .bytes = 20}), (Buckets{{3, 1}, {2, 0}}));
  EXPECT_EQ(plan_buckets(items, {3, 2, 1, 0}, {.first_bytes = 100, .bytes = 100}), (Buckets{{3, 1}, {2, 0}}));
}

TEST(BucketPlan, FollowsTheOrderOfArrival) {
  const std::vector<PlanItem> items(3, {.bytes = 10, .kind = "f"});
  EXPECT_EQ(plan_buckets(items, {1, 0, 2}, {.first_bytes = 20, .bytes = 20}), (Buckets{{1, 0}, {2}}));
}

TEST(BucketPlan, OfNothingIsEmpty) { EXPECT_TRUE(plan_buckets({}, {}, {.first_bytes = 1, .bytes = 1}).empty()); }

}  // namespace advice_test

namespace variants_test {

using ::testing::ElementsAre;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A broadcast, two buckets, and a small all_reduce after them.
Workload workload() {
  const MeasuredStep step{.compute_s = 1,
                          .backward_s = 0.2,
                          .optimizer_end_s = 0.1,
                          .optimizer_s = 0.08,
                          .calls = {{.kind = CallKind::kBroadcast, .bytes = 10, .called_s = 0.15, .waited_s = 0.15},
                                    {.bytes = 2 * kMiB, .bucket = 0, .called_s = 0.4, .waited_s = 0.8},
                                    {.bytes = 4 * kMiB, .bucket = 1, .called_s = 0.8, .waited_s = 0.8},
                                    {.bytes = 8, .called_s = 0.9, .waited_s = 0.9}}};
  return {.ranks = 2, .steps = {step}};
}

TEST(WithBuckets, PlansThePiecesOfTheMeasuredBuckets) {
  const Workload changed = with_buckets(workload(), {.first_bytes = kMiB, .bytes = 3 * kMiB});
  const auto& calls = changed.steps.front().calls;
  EXPECT_THAT(bucket_bytes(changed.steps.front()), ElementsAre(kMiB, 3 * kMiB, 2 * kMiB));
  ASSERT_EQ(calls.size(), 5U);
  EXPECT_EQ(calls[0].kind, CallKind::kBroadcast);
  EXPECT_NEAR(calls[1].called_s, 0.3, 1e-9);  // half of the first bucket
  EXPECT_NEAR(calls[2].called_s, 0.6, 1e-9);  // half of the second
  EXPECT_NEAR(calls[3].called_s, 0.8, 1e-9);
  EXPECT_NEAR(calls[3].waited_s, 0.8, 1e-9);
  EXPECT_EQ(calls[4].bytes, 8);
}

TEST(WithBuckets, LeavesAllGradientsTogether) {
  for (const std::int64_t size : {1, 2, 25}) {
    const Workload changed = with_buckets(workload(), {.first_bytes = kMiB, .bytes = size * kMiB});
    EXPECT_EQ(gradient_bytes(changed.steps.front()), 6 * kMiB);
  }
}

/// Buckets of these sizes, in KiB, one every tenth of a second.
Workload with_kib(const std::vector<std::int64_t>& sizes) {
  MeasuredStep step{.compute_s = 2};
  for (const std::int64_t size : sizes) {
    const int bucket = static_cast<int>(step.calls.size());
    step.calls.push_back({.bytes = size << 10, .bucket = bucket, .called_s = 0.1 * (bucket + 1), .waited_s = 1.5});
  }
  return {.ranks = 2, .steps = {step}};
}

std::vector<std::int64_t> kib_after(const std::vector<std::int64_t>& sizes, std::int64_t limit) {
  const PlanLimits limits{.first_bytes = std::min(limit << 10, kMiB), .bytes = limit << 10};
  std::vector<std::int64_t> planned = bucket_bytes(with_buckets(with_kib(sizes), limits).steps.front());
  for (std::int64_t& bytes : planned) bytes >>= 10;
  return planned;
}

TEST(WithBuckets, AsLargeAsTheMeasuredOnesAreTheMeasuredOnes) {
  const std::vector<std::int64_t> measured = {1024, 1100, 9216, 1030, 2300, 700};
  EXPECT_EQ(kib_after(measured, 1024), measured);
  EXPECT_THAT(kib_after(measured, 2048), ElementsAre(1024, 1100 + 9216, 1030 + 2300, 700));
}

TEST(WithBuckets, AParameterIsNotDivided) {
  // A parameter of at least 8 MiB closed the bucket of 9 MiB, since the others hold 1 MiB.
  EXPECT_THAT(kib_after({1024, 1024, 9216, 1024, 1024}, 512),
              ElementsAre(512, 512, 512, 512, 9216, 512, 512, 512, 512));
}

TEST(WithBuckets, AParameterAtTheBeginningIsNotDividedEither) {
  // The first bucket is closed at no more than 1 MiB.
  EXPECT_THAT(kib_after({36416, 224}, 4096), ElementsAre(36416, 224));
}

TEST(WithBf16, HalvesTheBytesAndPaysForTheConversions) {
  const HostCosts host{.copy_bytes_per_s = 6 * kMiB};
  const Workload changed = with_bf16(workload(), host);
  const MeasuredStep& step = changed.steps.front();
  EXPECT_THAT(bucket_bytes(step), ElementsAre(kMiB, 2 * kMiB));
  EXPECT_NEAR(step.compute_s, 1 + 1.25 + 0.75, 1e-9);
  EXPECT_NEAR(step.calls[1].called_s, 0.4 + 1.25 / 3, 1e-9);
  EXPECT_NEAR(step.calls[2].waited_s, 0.8 + 1.25, 1e-9);
  EXPECT_NEAR(step.calls[3].called_s, 0.9 + 1.25 + 0.75, 1e-9);
  EXPECT_EQ(step.calls[0].bytes, 10);
}

TEST(PowerSgdBytes, AreThoseOfTheFactorsOrOfWhatIsTooSmall) {
  const PowerSgdBytes matrix = power_sgd_bytes({512, 256, 3, 3}, 2);
  EXPECT_EQ(matrix.p, 512 * 2 * 4);
  EXPECT_EQ(matrix.q, 2304 * 2 * 4);
  EXPECT_EQ(matrix.plain, 0);
  const PowerSgdBytes bias = power_sgd_bytes({512}, 2);
  EXPECT_EQ(bias.p, 0);
  EXPECT_EQ(bias.plain, 512 * 4);
}

TEST(WithPowerSgd, SendsTwoRoundsOfWhichTheSecondFollowsBackward) {
  Workload known = workload();
  known.shapes = {{1024, 1024}, {1024, 512}};  // 4 MiB and 2 MiB; the last comes first
  const Workload changed = with_power_sgd(known, 1, {});
  const auto& calls = changed.steps.front().calls;
  ASSERT_EQ(calls.size(), 6U);
  EXPECT_EQ(calls[1].bytes, 1024 * 4);
  EXPECT_EQ(calls[2].bytes, 1024 * 4);
  EXPECT_EQ(calls[3].bytes, 512 * 4);
  EXPECT_EQ(calls[4].bytes, 1024 * 4);
  EXPECT_NEAR(calls[3].called_s, 0.8, 1e-9);
  EXPECT_EQ(calls[5].bytes, 8);
}

TEST(WithZero, ReducesPartsAndGathersTheParametersAfterAShorterUpdate) {
  const Workload changed = with_zero(workload(), 4);
  const MeasuredStep& step = changed.steps.front();
  EXPECT_NEAR(step.compute_s, 1 - 0.06, 1e-9);
  ASSERT_EQ(step.calls.size(), 6U);
  EXPECT_EQ(step.calls[0].kind, CallKind::kAllGather);
  EXPECT_NEAR(step.calls[0].called_s, 0.04, 1e-9);
  EXPECT_EQ(step.calls[2].kind, CallKind::kBroadcast);
  EXPECT_NEAR(step.calls[2].called_s, 0.09, 1e-9);
  EXPECT_EQ(step.calls[3].kind, CallKind::kReduceScatter);
  EXPECT_EQ(step.calls[5].kind, CallKind::kAllReduce);
}

}  // namespace variants_test
}  // namespace lockstep::simulate
