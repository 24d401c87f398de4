// SPDX-License-Identifier: Apache-2.0
#include "dashboard/timeline.h"

#include <gtest/gtest.h>

namespace lockstep::dashboard {
namespace timeline_test {

using flight::Event;
using flight::What;

TEST(Timeline, PairsSectionsInsideEachOtherAndCollectivesThatOverlap) {
  flight::Snapshot ring;
  ring.events = {{.time_ns = 10, .what = What::kSectionBegin, .name = "step"},
                 {.time_ns = 20, .what = What::kSectionBegin, .name = "backward"},
                 {.time_ns = 30, .what = What::kCollectiveBegin, .name = "all_reduce", .sequence = 1, .bucket = 0},
                 {.time_ns = 40, .what = What::kCollectiveBegin, .name = "all_reduce", .sequence = 2, .bucket = 1},
                 {.time_ns = 50, .what = What::kCollectiveEnd, .name = "all_reduce", .sequence = 1},
                 {.time_ns = 60, .what = What::kCollectiveFailed, .name = "all_reduce", .sequence = 2},
                 {.time_ns = 70, .what = What::kSectionEnd, .name = "backward"}};
  const auto spans = spans_of(ring, 0, 100);
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].begin_ns, 30);
  EXPECT_EQ(spans[0].end_ns, 50);
  EXPECT_EQ(spans[0].kind, 1);
  EXPECT_EQ(spans[1].kind, 2);
  EXPECT_EQ(spans[1].bucket, 1);
  EXPECT_EQ(spans[2].name, "backward");
  EXPECT_EQ(spans[2].depth, 1);
  EXPECT_TRUE(spans[3].is_open);
  EXPECT_EQ(spans[3].end_ns, 100);
}

TEST(Timeline, EndsTheSectionOfThatNameWhereAnotherThreadHasBegunOne) {
  flight::Snapshot ring;
  ring.events = {{.time_ns = 10, .what = What::kSectionBegin, .name = "forward"},
                 {.time_ns = 20, .what = What::kSectionBegin, .name = "save"},
                 {.time_ns = 30, .what = What::kSectionEnd, .name = "forward"}};
  const auto spans = spans_of(ring, 0, 100);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_EQ(spans[0].end_ns, 30);
  EXPECT_EQ(spans[1].name, "save");
  EXPECT_TRUE(spans[1].is_open);
}

TEST(Timeline, LeavesOutWhatIsTooOldAndWhatHasNoBegin) {
  flight::Snapshot ring;
  ring.events = {{.time_ns = 5, .what = What::kSectionEnd, .name = "forward"},
                 {.time_ns = 6, .what = What::kCollectiveEnd, .name = "barrier", .sequence = 9},
                 {.time_ns = 10, .what = What::kSectionBegin, .name = "a"},
                 {.time_ns = 20, .what = What::kSectionEnd, .name = "a"}};
  EXPECT_EQ(spans_of(ring, 0, 100).size(), 1U);
  EXPECT_TRUE(spans_of(ring, 21, 100).empty());
}

}  // namespace timeline_test
}  // namespace lockstep::dashboard
