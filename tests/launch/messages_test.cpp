// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace messages_test {

TEST(Messages, AnEventSurvivesItsText) {
  Event event{.kind = Event::Kind::kEnded,
              .end = {.round = 3,
                      .interrupted_by = 15,
                      .left_by_request = true,
                      .code = 143,
                      .cause = FailureRecord{.kind = FailureKind::kDied,
                                             .type = "DataError",
                                             .message = "no image",
                                             .rank = 7,
                                             .host = "b",
                                             .time_ns = 5}},
              .signal = 15};
  event.node.id = "n1";
  const auto same = parse_event(to_text(event));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->kind, Event::Kind::kEnded);
  EXPECT_EQ(same->node.id, "n1");
  EXPECT_EQ(same->end.round, 3);
  EXPECT_TRUE(same->end.left_by_request);
  EXPECT_FALSE(same->end.is_success);
  EXPECT_EQ(same->end.cause->type, "DataError");
  EXPECT_EQ(same->end.cause->rank, 7);
  EXPECT_EQ(same->signal, 15);
}

TEST(Messages, ALastWillIsTheLossOfANode) {
  EXPECT_EQ(parse_event("silent\nn1")->why, "silent");
  EXPECT_EQ(parse_event("closed\nn1")->node.id, "n1");
  EXPECT_FALSE(parse_event("asleep\nn1"));
  EXPECT_FALSE(parse_event("silent\n")) << "of no node";
}

// An exit code has eight bits, and 128 + 128 are none.
TEST(Messages, NoCodeAndNoSignalWrapsRoundToASuccess) {
  for (const char* code : {"256", "512", "-1", "100000"}) {
    const auto event = parse_event(fmt::format(
        R"({{"event": "ended", "node": {{"id": "n1"}}, "end": {{"round": 0, "code": {0}, "interrupted_by": {0}}}, )"
        R"("signal": {0}}})",
        code));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->end.code, 70) << code;
    EXPECT_EQ(event->end.interrupted_by, 0) << code;
    EXPECT_EQ(event->signal, 0) << code;
    EXPECT_EQ(parse_order(fmt::format(R"({{"order": "end", "code": {}}})", code))->code, 70);
  }
}

TEST(Messages, ANodeWithoutMeasureDoesNotJoin) {
  const auto joined = [](const NodeInfo& node) {
    return parse_event(to_text({.kind = Event::Kind::kJoined, .node = node})).has_value();
  };
  EXPECT_TRUE(joined({.id = "n1", .host = "h", .processes = 8}));
  EXPECT_FALSE(joined({.id = "n1", .host = "h", .processes = 100'000}));
  EXPECT_FALSE(joined({.id = "n1", .host = std::string(5000, 'h'), .processes = 8}));
  EXPECT_FALSE(joined({.id = "n1", .host = "h", .processes = 8, .peers = {std::string(2'000'000, 'h')}}));
}

TEST(Messages, AnOrderSurvivesItsText) {
  const Order order{.kind = Order::Kind::kRun,
                    .reason = "2 nodes",
                    .round = 2,
                    .restarts = 1,
                    .max_world_size = 4,
                    .min_world_size = 2,
                    .master_port = 29501,
                    .members = {{"n1", "a", 2}, {"n2", "b", 1}}};
  const auto same = parse_order(to_text(order));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->kind, Order::Kind::kRun);
  EXPECT_EQ(same->round, 2);
  EXPECT_EQ(same->restarts, 1);
  EXPECT_EQ(same->max_world_size, 4);
  EXPECT_EQ(same->min_world_size, 2);
  EXPECT_EQ(same->master_port, 29501);
  ASSERT_EQ(same->members.size(), 2U);
  EXPECT_EQ(same->members[1].host, "b");
  EXPECT_FALSE(same->cause);
}

TEST(Messages, OfSomethingElseAreNone) {
  for (const char* text : {"", "{}", "[1]", R"({"event": "joined"})", R"({"event": "dance", "node": {"id": "x"}})",
                           R"({"event": "joined", "node": {"id": "x", "host": "h", "processes": 0}})"}) {
    EXPECT_FALSE(parse_event(text)) << text;
  }
  for (const char* text : {"", "{}", R"({"order": "run"})", R"({"order": "run", "members": [3]})", R"({"order": 7})"}) {
    EXPECT_FALSE(parse_order(text)) << text;
  }
}

}  // namespace messages_test
}  // namespace lockstep::launch
