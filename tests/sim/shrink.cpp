// SPDX-License-Identifier: Apache-2.0
#include "sim/shrink.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace lockstep::sim {
namespace {

std::string without_numbers(std::string text) {
  std::erase_if(text, [](unsigned char letter) { return std::isdigit(letter) != 0; });
  return text;
}

/// Tries cuts and keeps the best one.
class Shrinker {
 public:
  Shrinker(const Plan& plan, const std::string& violation, const Scratch& scratch)
      : plan_(plan), wanted_(without_numbers(violation)), scratch_(scratch) {}

  bool keeps(const Cut& cut) {
    const Plan plan = smaller(plan_, cut);
    const Result& result = run_world(plan, scratch_);
    if (!result.has_failed || without_numbers(result.violation) != wanted_) return false;
    best_ = cut;
    return true;
  }

  Cut run() {
    for (bool is_smaller = true; is_smaller;) {
      is_smaller = false;
      for (int fault = 0; fault < static_cast<int>(plan_.faults.size()); ++fault) {
        if (std::count(best_.without.begin(), best_.without.end(), fault) > 0) continue;
        Cut cut = best_;
        cut.without.push_back(fault);
        is_smaller = keeps(cut) || is_smaller;
      }
      const Plan now = smaller(plan_, best_);
      if (now.nodes > 1) is_smaller = try_with([&](Cut& cut) { cut.nodes = now.nodes - 1; }) || is_smaller;
      const int most = *std::max_element(now.ranks.begin(), now.ranks.end());
      if (most > 1) is_smaller = try_with([&](Cut& cut) { cut.ranks = most - 1; }) || is_smaller;
      if (now.steps > 1) is_smaller = try_with([&](Cut& cut) { cut.steps = now.steps / 2; }) || is_smaller;
    }
    return best_;
  }

 private:
  template <class Change>
  bool try_with(Change change) {
    Cut cut = best_;
    change(cut);
    return keeps(cut);
  }

  const Plan& plan_;
  const std::string wanted_;
  const Scratch& scratch_;
  Cut best_;
};

}  // namespace

Plan smaller(Plan plan, const Cut& cut) {
  std::vector<int> without = cut.without;
  std::sort(without.rbegin(), without.rend());
  for (const int fault : without) {
    if (fault < static_cast<int>(plan.faults.size())) plan.faults.erase(plan.faults.begin() + fault);
  }
  if (cut.nodes > 0 && cut.nodes < plan.nodes) {
    plan.nodes = cut.nodes;
    plan.max_nodes = std::min(plan.max_nodes, cut.nodes);
    plan.min_nodes = std::min(plan.min_nodes, cut.nodes);
    plan.ranks.resize(static_cast<std::size_t>(cut.nodes));
    plan.starts.resize(static_cast<std::size_t>(cut.nodes));
    std::erase_if(plan.faults, [&](const Fault& fault) {
      return fault.node >= plan.nodes || (is_of_link(fault.kind) && (fault.other >= plan.nodes || plan.nodes == 1));
    });
  }
  if (cut.ranks > 0) {
    for (int& ranks : plan.ranks) ranks = std::min(ranks, cut.ranks);
  }
  if (cut.steps > 0) plan.steps = cut.steps;
  return plan;
}

std::string to_text(const Cut& cut) {
  std::string text;
  if (!cut.without.empty()) text += fmt::format(" --without {}", fmt::join(cut.without, ","));
  if (cut.nodes > 0) text += fmt::format(" --nodes {}", cut.nodes);
  if (cut.ranks > 0) text += fmt::format(" --ranks {}", cut.ranks);
  if (cut.steps > 0) text += fmt::format(" --steps {}", cut.steps);
  return text;
}

Cut shrink(const Plan& plan, const std::string& violation, const Scratch& scratch) {
  return Shrinker(plan, violation, scratch).run();
}

}  // namespace lockstep::sim
