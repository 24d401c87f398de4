// SPDX-License-Identifier: Apache-2.0
// Several listeners at once: the flight recorder, a profile, the figures of a report.
#include "lockstep/base/trace.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::trace {
namespace trace_test {

class Counter final : public Sink {
 public:
  void begin(const Event& /*event*/) noexcept override { ++begun; }
  void end(const Event& /*event*/) noexcept override { ++ended; }
  int begun = 0;
  int ended = 0;
};

TEST(Trace, EverySinkHearsEverySpan) {
  Counter first;
  Counter second;
  ASSERT_TRUE(add_sink(first));
  ASSERT_TRUE(add_sink(second));
  { const Span span({.name = "work"}); }
  remove_sink(first);
  { const Span span({.name = "work"}); }
  remove_sink(second);
  { const Span span({.name = "work"}); }
  EXPECT_EQ(first.begun, 1);
  EXPECT_EQ(second.begun, 2);
  EXPECT_EQ(second.ended, 2);
}

TEST(Trace, ASpanEndsInTheSinksThatItBeganIn) {
  Counter before;
  Counter after;
  ASSERT_TRUE(add_sink(before));
  {
    const Span span({.name = "work"});
    remove_sink(before);
    ASSERT_TRUE(add_sink(after));
  }
  remove_sink(after);
  EXPECT_EQ(before.ended, 1);
  EXPECT_EQ(after.ended, 0);
}

TEST(Trace, RefusesMoreSinksThanItHolds) {
  std::array<Counter, std::tuple_size_v<Sinks> + 1> counters;
  std::size_t added = 0;
  while (added < counters.size() && add_sink(counters[added])) ++added;
  EXPECT_EQ(added, std::tuple_size_v<Sinks>);
  for (Counter& counter : counters) remove_sink(counter);
  EXPECT_EQ(sinks(), Sinks{});
}

}  // namespace trace_test
}  // namespace lockstep::trace
