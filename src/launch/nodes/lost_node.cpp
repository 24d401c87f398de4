// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/lost_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {
namespace {

constexpr const char* kHint =
    "look at that node: the kernel's log (dmesg), its network, and the run's logs there; start the same command again "
    "on the nodes that are left";

std::int64_t wall_time_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string ranks_text(const NodeName& node) {
  const int last = node.first_rank + node.ranks - 1;
  if (last == node.first_rank) return fmt::format("rank {}", last);
  return fmt::format("ranks {} to {}", node.first_rank, last);
}

std::string lost_text(const std::string& node, const std::string& why, std::chrono::milliseconds silence) {
  if (why == "closed") return fmt::format("{} is lost: its launcher was killed, or its machine went down", node);
  return fmt::format("{} is lost: no word from it for {}; it is frozen, or the network to it is cut", node,
                     text::duration(Seconds(silence).count()));
}

FailureRecord record(const std::string& node, const std::string& why, std::chrono::milliseconds silence) {
  return {.kind = FailureKind::kLost,
          .type = "PeerError",
          .message = lost_text(node, why, silence),
          .hint = kHint,
          .time_ns = wall_time_ns()};
}

/// What other ranks say when one is gone: it names a victim, or nobody.
bool is_of_a_waiting_rank(FailureKind kind) { return kind == FailureKind::kTimeout || kind == FailureKind::kPeer; }

}  // namespace

std::chrono::milliseconds node_silence(std::chrono::milliseconds collective_timeout) {
  return std::clamp<std::chrono::milliseconds>(collective_timeout / 2, std::chrono::seconds(1),
                                               std::chrono::seconds(6));
}

LostNode lost_node(const NodeName& node, const std::string& why, std::chrono::milliseconds silence) {
  const std::string name = fmt::format("node {} ({}, {})", node.node_rank, node.host, ranks_text(node));
  LostNode lost{record(name, why, silence), node.ranks};
  lost.record.rank = node.first_rank;
  lost.record.host = node.host;
  return lost;
}

LostNode lost_node_zero(const StoreAddress& address, const std::string& why, std::chrono::milliseconds silence) {
  LostNode lost{record(fmt::format("node 0 ({}:{})", address.host, address.port), why, silence), 1};
  lost.record.rank = 0;
  lost.record.host = address.host;
  return lost;
}

std::optional<FailureRecord> first_cause(const std::optional<FailureRecord>& claim, const std::optional<LostNode>& lost,
                                         std::chrono::milliseconds silence) {
  if (!lost) return claim;
  if (!claim || is_of_a_waiting_rank(claim->kind)) return lost->record;
  const int first = lost->record.rank;
  if (claim->rank >= first && claim->rank < first + lost->ranks) return claim;
  // The clocks of two hosts may differ by a second; a node was lost some time before that is known.
  const auto doubt = std::chrono::nanoseconds(silence + std::chrono::seconds(1)).count();
  return claim->time_ns != 0 && claim->time_ns < lost->record.time_ns - doubt ? claim : lost->record;
}

}  // namespace lockstep::launch
