// SPDX-License-Identifier: Apache-2.0
// Chooses the backend of a group and connects its ranks.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/core/group.h"
#include "comm/wiring/select.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// How the ranks of a job meet.
struct Meeting {
  BackendKind wanted = BackendKind::kAuto;
  std::shared_ptr<Store> store;
  std::string store_host;  ///< the store's host; by default, ranks connect over the interface that leads to it
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds patience{0};  ///< World::patience
  c10::Device device{c10::kCPU};          ///< the device on which this rank computes
  Wire wire = Wire::kAuto;                ///< the wire, the same on every rank
  std::string token;                      ///< the secret that the store requires; empty if there is none
};

/// The members of a group, in the order of their ranks in the group.
struct Membership {
  int rank = 0;  ///< this process's rank in the group
  std::vector<HostFacts> hosts = {};
  std::vector<int> ranks = {};  ///< the members' ranks in the job
  std::string prefix;           ///< prefix of the group's keys in the store, unique to it
};

struct Formed {
  std::shared_ptr<OwnedGroup> group;
  std::string reason;  ///< the reason for this backend, in one sentence
};

/// Connects the members; returns when all are connected.
/// Collective: yes, over the members. Blocks: yes.
/// Throws: UsageError for an impossible backend, ResourceError (shared memory), PeerError, TimeoutError.
[[nodiscard]] Formed form_group(const Meeting& meeting, const Membership& members);

}  // namespace lockstep::comm
