// SPDX-License-Identifier: Apache-2.0
// The order of the rules: a cause that explains the metrics behind another rule excludes that rule.
#include <algorithm>

#include "view/report/rules.h"

namespace lockstep::view {
namespace {

bool is_long_enough(const Ranks& ranks) {
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [](const RankFigures& rank) {
    return rank.steps >= kFewestSteps && rank.training() >= kShortestSeconds;
  });
}

/// Adds the finding of the first of `rules` that has a finding.
void add_first(std::vector<Finding>& found, const Ranks& ranks, const ReportSettings& settings,
               const std::vector<std::optional<Finding> (*)(const Ranks&, const ReportSettings&)>& rules) {
  for (const auto rule : rules) {
    if (auto finding = rule(ranks, settings)) {
      found.push_back(std::move(*finding));
      return;
    }
  }
}

}  // namespace

std::vector<Finding> find_causes(const std::vector<RankFigures>& ranks, const ReportSettings& settings) {
  std::vector<Finding> found;
  if (!ranks.empty()) add_first(found, ranks, settings, {find_little_memory});
  if (!is_long_enough(ranks)) return found;
  // A rank with costlier samples shares its core with its own workers, and a rank without a full core takes longer to
  // compute, so earlier rules exclude later ones.
  add_first(found, ranks, settings, {find_unbalanced_loader, find_busy_core, find_more_work});
  const bool is_one_rank = std::any_of(found.begin(), found.end(), [](const Finding& each) { return each.rank >= 0; });
  if (!is_one_rank) add_first(found, ranks, settings, {find_slow_disk, find_few_workers, find_costly_loading});
  add_first(found, ranks, settings, {find_tiny_buckets});
  return found;
}

}  // namespace lockstep::view
