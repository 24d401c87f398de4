// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule/bucket_plan.h"

#include <gtest/gtest.h>

namespace lockstep::schedule {
namespace bucket_plan_test {

using Plan = std::vector<std::vector<std::size_t>>;

TEST(BucketPlan, ClosesTheFirstBucketEarlyAndTheOthersAtTheirLimit) {
  const std::vector<PlanItem> items(6, {.bytes = 10, .kind = "f"});
  EXPECT_EQ(plan_buckets(items, {5, 4, 3, 2, 1, 0}, {.first_bytes = 10, .bytes = 30}), (Plan{{5}, {4, 3, 2}, {1, 0}}));
}

TEST(BucketPlan, LetsAParameterLargerThanABucketFillOne) {
  const std::vector<PlanItem> items{{.bytes = 5, .kind = "f"}, {.bytes = 900, .kind = "f"}, {.bytes = 5, .kind = "f"}};
  EXPECT_EQ(plan_buckets(items, {2, 1, 0}, {.first_bytes = 10, .bytes = 10}), (Plan{{2, 1}, {0}}));
}

TEST(BucketPlan, KeepsKindsApartAndOrdersBucketsByTheirLastArrival) {
  const std::vector<PlanItem> items{{.bytes = 10, .kind = "float"},
                                    {.bytes = 10, .kind = "double"},
                                    {.bytes = 10, .kind = "float"},
                                    {.bytes = 10, .kind = "double"}};
  // float's bucket waits for parameter 0, the very last; double's is full before.
  EXPECT_EQ(plan_buckets(items, {3, 2, 1, 0}, {.first_bytes = 20, .bytes = 20}), (Plan{{3, 1}, {2, 0}}));
  EXPECT_EQ(plan_buckets(items, {3, 2, 1, 0}, {.first_bytes = 100, .bytes = 100}), (Plan{{3, 1}, {2, 0}}));
}

TEST(BucketPlan, FollowsTheOrderOfArrival) {
  const std::vector<PlanItem> items(3, {.bytes = 10, .kind = "f"});
  EXPECT_EQ(plan_buckets(items, {1, 0, 2}, {.first_bytes = 20, .bytes = 20}), (Plan{{1, 0}, {2}}));
}

TEST(BucketPlan, OfNothingIsEmpty) { EXPECT_TRUE(plan_buckets({}, {}, {.first_bytes = 1, .bytes = 1}).empty()); }

}  // namespace bucket_plan_test
}  // namespace lockstep::schedule
