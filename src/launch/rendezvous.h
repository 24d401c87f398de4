// SPDX-License-Identifier: Apache-2.0
// How the agents of a job find each other: node 0 serves the store, the others connect, and each learns the world.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launch/worker_env.h"
#include "lockstep/base/file_system.h"
#include "lockstep/launch/agent.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

struct Meeting {
  StoreAddress address;
  std::unique_ptr<StoreServer> server;  ///< on node 0 only
  std::shared_ptr<Store> store;
  std::unique_ptr<Presence> presence;    ///< of this node among several
  std::chrono::milliseconds silence{0};  ///< how long a node may be silent before it is lost
  Place place;                           ///< place of local rank 0
  std::string master_addr;
  std::uint16_t master_port = 0;  ///< free on node 0, for programs that make a store of their own
  std::string run_id;
};

/// Blocks until all nodes are there. Throws: UsageError (busy port, wrong token, a node rank taken twice, different
/// options), TimeoutError naming the nodes that did not come.
[[nodiscard]] Meeting meet(const AgentOptions& options);

/// A port that was free a moment ago, outside the range from which the kernel takes ports by itself.
[[nodiscard]] std::uint16_t find_free_port(const std::string& host);

/// Waits for keys in a thread of its own, so that the agent's loop can poll for them.
class KeyWatcher {
 public:
  enum class Found { kNothing, kKeys, kStoreIsGone };

  KeyWatcher(const StoreAddress& address, std::vector<std::string> keys);
  ~KeyWatcher();
  KeyWatcher(const KeyWatcher&) = delete;
  KeyWatcher& operator=(const KeyWatcher&) = delete;

  /// Readable once something was found.
  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  [[nodiscard]] Found found() const noexcept { return found_; }

 private:
  std::shared_ptr<Store> store_;
  UniqueFd event_;
  std::atomic<Found> found_{Found::kNothing};
  std::thread thread_;
};

}  // namespace lockstep::launch
