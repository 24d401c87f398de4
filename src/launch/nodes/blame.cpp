// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/restart.h"

namespace lockstep::launch {
namespace {

constexpr const char* kHint =
    "check that node: the kernel log (dmesg), its network, and the run's logs there; restart the same command on the "
    "remaining nodes";

std::string lost_text(const std::string& node, const std::string& why, std::chrono::milliseconds silence) {
  if (why == "closed") return fmt::format("{} is lost: its launcher was killed, or its machine went down", node);
  return fmt::format("{} is lost: it reported nothing for {}; it is frozen, or the network to it is down", node,
                     text::duration(Seconds(silence).count()));
}

FailureRecord record(int rank, const std::string& host, const std::string& text) {
  return {.kind = FailureKind::kLost,
          .type = "PeerError",
          .message = text,
          .hint = kHint,
          .rank = rank,
          .host = host,
          .time_ns = wall_time_ns()};
}

// Returns true for errors of ranks that lost another rank: they name a victim or no rank, or repeat a report.
bool has_no_cause(FailureKind kind) {
  return kind == FailureKind::kTimeout || kind == FailureKind::kPeer || kind == FailureKind::kLost;
}

// Returns a weight; the suspect with the smallest weight is blamed.
int weight(const Suspect& suspect, bool is_claimed) {
  if (suspect.is_late) return 0;
  if (is_claimed && suspect.has_own_code) return 1;
  if (!suspect.is_consequence) return is_claimed ? 2 : 3;
  if (is_claimed) return 4;
  return suspect.was_stopped ? 6 : 5;
}

}  // namespace

std::optional<std::size_t> blame(const std::vector<Suspect>& suspects, const std::optional<FailureRecord>& claim) {
  const auto weigh = [&](const Suspect& suspect) { return weight(suspect, claim && suspect.rank == claim->rank); };
  const auto found = std::min_element(suspects.begin(), suspects.end(),
                                      [&](const Suspect& a, const Suspect& b) { return weigh(a) < weigh(b); });
  if (found == suspects.end()) return std::nullopt;
  return static_cast<std::size_t>(found - suspects.begin());
}

std::string ranks_text(const NodeName& node) {
  const int last = node.first_rank + node.ranks - 1;
  if (last == node.first_rank) return fmt::format("rank {}", last);
  return fmt::format("ranks {} to {}", node.first_rank, last);
}

std::chrono::milliseconds node_silence(std::chrono::milliseconds collective_timeout) {
  return std::clamp<std::chrono::milliseconds>(collective_timeout / 2, std::chrono::seconds(1),
                                               std::chrono::seconds(6));
}

FailureRecord lost_node(const NodeName& node, const std::string& why, std::chrono::milliseconds silence) {
  const std::string name = fmt::format("node {} ({}, {})", node.node_rank, node.host, ranks_text(node));
  return record(node.first_rank, node.host, lost_text(name, why, silence));
}

FailureRecord unreachable_server(const NodeName& server, const NodeName& node) {
  return record(
      server.first_rank, server.host,
      fmt::format("node {} ({}, {}) could not be reached by node {} ({}), which is back: the network between them was "
                  "down, or the launcher of node {} was stopped",
                  server.node_rank, server.host, ranks_text(server), node.node_rank, node.host, server.node_rank));
}

FailureRecord given_up(const NodeName& server, const NodeName& node, std::chrono::milliseconds stopped) {
  return record(server.first_rank, server.host,
                fmt::format("the launcher of node {} ({}, {}) was stopped for {}, so node {} ({}) treated it as lost",
                            server.node_rank, server.host, ranks_text(server), text::duration(Seconds(stopped).count()),
                            node.node_rank, node.host));
}

FailureRecord lost_node_zero(const StoreAddress& address, const std::string& why, std::chrono::milliseconds silence) {
  return record(0, address.host, lost_text(fmt::format("node 0 ({}:{})", address.host, address.port), why, silence));
}

bool would_recur(const FailureRecord& cause) {
  return !decide_restart({.error_type = cause.type, .error_text = cause.message, .max_restarts = 1}).restart;
}

bool blames_node(const FailureRecord& lost, int ranks, const std::optional<FailureRecord>& claim,
                 std::chrono::milliseconds silence) {
  if (!claim || has_no_cause(claim->kind)) return true;
  if (claim->rank >= lost.rank && claim->rank < lost.rank + ranks) return false;
  // The clocks of two hosts may differ by a second, and a lost node is noticed only after a period of silence.
  const auto doubt = std::chrono::nanoseconds(silence + std::chrono::seconds(1)).count();
  return claim->time_ns == 0 || claim->time_ns >= lost.time_ns - doubt;
}

}  // namespace lockstep::launch
