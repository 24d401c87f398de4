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

}  // namespace coordinator_test
}  // namespace lockstep::launch
