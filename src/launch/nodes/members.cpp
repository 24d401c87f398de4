// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/members.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::launch {
namespace {

using Phase = GroupNode::Phase;

// Sorts nodes by requested node rank; without one, the server comes first, then known hosts in their old order, then
// the rest in the order they joined.
Nodes in_order(Nodes nodes, const GroupState& state, const GroupOptions& options) {
  const auto place = [&](const GroupNode* node) {
    if (node->is_serving) return static_cast<std::ptrdiff_t>(-1);
    if (!options.is_range() && node->info.wish >= 0) return static_cast<std::ptrdiff_t>(node->info.wish);
    return std::find(state.hosts.begin(), state.hosts.end(), node->info.host) - state.hosts.begin();
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](auto* a, auto* b) { return place(a) < place(b); });
  return nodes;
}

// Adds waiting nodes, in order, as long as there are places and replicas for them.
void add_fitting(Nodes& members, const Nodes& waiting, const GroupState& state, const GroupOptions& options) {
  std::int64_t ranks = ranks_of(members);
  for (const GroupNode* node : waiting) {
    if (std::ssize(members) >= options.max_nodes) return;
    const bool has_work = !state.replicas || ranks + node->info.processes <= *state.replicas;
    if (options.is_range() && !has_work) continue;
    members.push_back(node);
    ranks += node->info.processes;
  }
}

bool is_enough(const Nodes& members, const GroupOptions& options) {
  return std::ssize(members) >= options.min_nodes &&
         std::any_of(members.begin(), members.end(), [](auto* node) { return node->is_serving; });
}

}  // namespace

Nodes nodes_in(const GroupState& state, Phase phase) {
  Nodes found;
  for (const GroupNode& node : state.nodes) {
    if (node.phase == phase) found.push_back(&node);
  }
  return found;
}

Nodes nodes_of_round(const GroupState& state) {
  Nodes found;
  for (const GroupNode& node : state.nodes) {
    if (node.phase != Phase::kWaiting) found.push_back(&node);
  }
  return found;
}

int ranks_of(const Nodes& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), 0,
                         [](int ranks, const GroupNode* node) { return ranks + node->info.processes; });
}

Nodes members_of_next_round(const GroupState& state, const GroupOptions& options) {
  const Nodes all = in_order(nodes_in(state, Phase::kWaiting), state, options);
  Nodes members;
  add_fitting(members, all, state, options);
  if (is_enough(members, options)) return members;
  // Smaller nodes leave room for more nodes.
  Nodes by_size = all;
  std::stable_sort(by_size.begin(), by_size.end(), [](auto* a, auto* b) {
    return std::pair(!a->is_serving, a->info.processes) < std::pair(!b->is_serving, b->info.processes);
  });
  members.clear();
  add_fitting(members, by_size, state, options);
  if (is_enough(members, options)) return in_order(members, state, options);
  return {all.begin(), all.begin() + std::min<std::ptrdiff_t>(std::ssize(all), options.max_nodes)};
}

Nodes joiners_of(const GroupState& state, const GroupOptions& options) {
  if (!options.is_range()) return {};
  Nodes members = nodes_of_round(state);
  const auto before = std::ssize(members);
  add_fitting(members, in_order(nodes_in(state, Phase::kWaiting), state, options), state, options);
  return {members.begin() + before, members.end()};
}

int most_ranks(const Nodes& members, const GroupOptions& options) {
  int largest = 0;
  for (const GroupNode* node : members) largest = std::max(largest, node->info.processes);
  return ranks_of(members) + (options.max_nodes - static_cast<int>(members.size())) * largest;
}

int fewest_ranks(const Nodes& members, const GroupOptions& options) {
  if (!options.is_range()) return 0;
  int ranks = 0;
  std::vector<int> others;
  for (const GroupNode* node : members) {
    if (node->is_serving) ranks = node->info.processes;
    if (!node->is_serving) others.push_back(node->info.processes);
  }
  std::sort(others.begin(), others.end());
  const auto needed = std::clamp<std::ptrdiff_t>(options.min_nodes - 1, 0, std::ssize(others));
  return std::accumulate(others.begin(), others.begin() + needed, ranks);
}

bool has_idle_ranks(const GroupState& state, const GroupOptions& options) {
  if (!options.is_range() || !state.replicas || ranks_of(nodes_of_round(state)) <= *state.replicas) return false;
  GroupState next = state;
  for (GroupNode& node : next.nodes) node.phase = Phase::kWaiting;
  return ranks_of(members_of_next_round(next, options)) <= *state.replicas;
}

std::string held_text(const GroupNode& node, const GroupState& state, const GroupOptions& options) {
  const Nodes members = nodes_of_round(state);
  const Nodes joiners = joiners_of(state, options);
  const std::string nodes = text::counted(std::ssize(members), "node");
  if (std::find(joiners.begin(), joiners.end(), &node) != joiners.end()) {
    return fmt::format("the job runs on {}: this node joins it {}", nodes,
                       options.take_in == TakeIn::kAtOnce ? "now" : "at the next checkpoint");
  }
  if (std::ssize(members) >= options.max_nodes) {
    return fmt::format(
        "the job runs on {}, as many as --nnodes {}:{} allows: this node is a spare and will replace one that is lost",
        nodes, options.min_nodes, options.max_nodes);
  }
  return fmt::format(
      "the run has {} on {}, and each rank needs one: this node is a spare and will replace one that is lost; to use "
      "it, restart the job with more replicas (--set replicas=N --allow-other-bits)",
      text::counted(state.replicas.value_or(0), "replica"), text::counted(ranks_of(members), "rank"));
}

std::string missing_text(const GroupState& state, const GroupOptions& options) {
  const auto waiting = nodes_in(state, Phase::kWaiting);
  const auto here = static_cast<int>(waiting.size());
  if (options.is_range()) {
    return fmt::format("{} more (of {} to {} nodes, {} {} here)",
                       text::counted(std::max(options.min_nodes - here, 0), "node"), options.min_nodes,
                       options.max_nodes, here, here == 1 ? "is" : "are");
  }
  if (std::any_of(waiting.begin(), waiting.end(), [](const GroupNode* node) { return node->info.wish < 0; })) {
    return fmt::format("{} more (of {}, {} {} here)", text::counted(options.max_nodes - here, "node"),
                       options.max_nodes, here, here == 1 ? "is" : "are");
  }
  std::vector<int> missing;
  for (int rank = 0; rank < options.max_nodes; ++rank) {
    const auto has_rank = [&](const GroupNode* node) { return node->info.wish == rank; };
    if (std::none_of(waiting.begin(), waiting.end(), has_rank)) missing.push_back(rank);
  }
  return fmt::format("{} {} of {}", missing.size() == 1 ? "node" : "nodes", fmt::join(missing, ", "),
                     options.max_nodes);
}

}  // namespace lockstep::launch
