// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/coordinator.h"

#include <gtest/gtest.h>

#include <future>
#include <new>

#include "launch/nodes/messages.h"

namespace lockstep::launch {
namespace coordinator_test {

TEST(Coordinator, ThatCannotGoOnTellsItsAgentWhy) {
  const std::string token = make_token();
  const StoreServer server({.token = token});
  const StoreAddress address{.port = server.port(), .token = token};
  std::promise<void> told;
  Coordinator coordinator({.address = address,
                           .options = {.min_nodes = 1, .max_nodes = 1},
                           .serving_id = "a",
                           .free_port = []() -> std::uint16_t { throw std::bad_alloc(); },
                           .on_failure = [&] { told.set_value(); }});
  EXPECT_NO_THROW(coordinator.rethrow_failure());
  const NodeInfo node{.id = "a", .host = "h"};
  connect_store(address, std::chrono::seconds(10))
      ->append(kEventQueue, to_text(Event{.kind = Event::Kind::kJoined, .node = node}));
  ASSERT_EQ(told.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_THROW(coordinator.rethrow_failure(), std::bad_alloc);
}

// Who knows the id of an agent can say that it left, or was lost.
TEST(Coordinator, TellsNoAgentTheIdOfAnother) {
  const std::string token = make_token();
  const StoreServer server({.token = token});
  const StoreAddress address{.port = server.port(), .token = token};
  Coordinator coordinator(
      {.address = address, .options = {.min_nodes = 2, .max_nodes = 2}, .serving_id = "secret-a", .free_port = [] {
         return std::uint16_t{1};
       }});
  const auto store = connect_store(address, std::chrono::seconds(10));
  for (const char* name : {"a", "b"}) {
    NodeInfo node{.id = std::string("secret-") + name, .host = name, .min_nodes = 2, .max_nodes = 2};
    node.wish = name[0] - 'a';
    store->append(kEventQueue, to_text(Event{.kind = Event::Kind::kJoined, .node = node}));
  }
  const std::string told = store->get(order_queue("secret-b") + "1", std::chrono::seconds(10));
  EXPECT_EQ(told.find("secret-a"), std::string::npos) << told;
  const auto order = parse_order(told);
  ASSERT_TRUE(order);
  ASSERT_EQ(order->members.size(), 2U);
  EXPECT_EQ(order->members[1].id, "secret-b") << "it finds itself";
}

}  // namespace coordinator_test
}  // namespace lockstep::launch
