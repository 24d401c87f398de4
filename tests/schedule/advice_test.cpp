// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::schedule {
namespace advice_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Not;

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
  // One bucket for everything is the last that is tried.
  EXPECT_THAT(late.buckets, Not(Contains(Field(&Alternative::name, "buckets of 100 MiB"))));
}

TEST(MakePlan, SaysWhetherHooksHierarchyAndZeroPay) {
  const Link slow{.bytes_per_s = 1e8, .latency_s = 1e-5};
  Workload known = workload();
  known.shapes.assign(8, {1024, 1024});
  const Plan plan =
      make_plan(known, {.cluster = {.gpus = 4, .machines = 4, .network = slow, .backend = Backend::kGloo}});
  EXPECT_GT(named(plan.alternatives, "backend shm+gloo").gain, 0.5);
  EXPECT_NEAR(named(plan.alternatives, "bf16 hook").gain, 0.5, 0.1);
  EXPECT_GT(named(plan.alternatives, "PowerSGD hook, rank 1").gain, 0.7);
  EXPECT_GT(named(plan.alternatives, "ZeRO-1").step_s, 0);
  // Where copying memory is as slow as the link, bf16 does not pay.
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

}  // namespace advice_test
}  // namespace lockstep::schedule
