// SPDX-License-Identifier: Apache-2.0
// Compares ranks, for the rules.
#include <algorithm>

#include "view/report/rules.h"

namespace lockstep::view {

double median_of(const Ranks& ranks, const RankValue& figure, std::int64_t but) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < std::ssize(ranks); ++i) {
    if (i != but) values.push_back(figure(ranks[static_cast<std::size_t>(i)]));
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::int64_t largest(const Ranks& ranks, const RankValue& figure) {
  const auto less = [&](const RankFigures& a, const RankFigures& b) { return figure(a) < figure(b); };
  return std::max_element(ranks.begin(), ranks.end(), less) - ranks.begin();
}

double spare_cores(const Ranks& ranks, const RankFigures& rank) {
  double used = 0;
  for (const RankFigures& each : ranks) {
    if (each.host == rank.host && each.cpus == rank.cpus && each.seconds > 0) used += each.process_cpu / each.seconds;
  }
  return std::max(0.0, rank.cores - used);
}

namespace {

/// Returns the cost of a step of `rank` in stretch `i`, divided by the others' median; 0 if a rank lacks the stretch.
double ratio_in(const Ranks& ranks, std::int64_t rank, std::size_t i,
                const std::function<double(const Stretch&)>& cost) {
  const Stretch& own = ranks[static_cast<std::size_t>(rank)].stretches[i];
  for (const RankFigures& other : ranks) {
    if (i >= other.stretches.size() || other.stretches[i].first_step != own.first_step) return 0;
  }
  const double median = median_of(
      ranks, [&](const RankFigures& other) { return cost(other.stretches[i]); }, rank);
  return median > 0 ? cost(own) / median : 0;
}

/// Returns the index of the stretch from which on the rank has been slower, or the number of stretches if it is not
/// slower in the last one.
std::size_t slow_from(const Ranks& ranks, std::int64_t rank, const std::function<double(const Stretch&)>& cost) {
  std::size_t begin = ranks[static_cast<std::size_t>(rank)].stretches.size();
  while (begin > 0 && ratio_in(ranks, rank, begin - 1, cost) >= kSlowerRank) --begin;
  return begin;
}

}  // namespace

bool is_steady(const Ranks& ranks, std::int64_t rank, double ratio, const std::function<double(const Stretch&)>& cost) {
  const auto& stretches = ranks[static_cast<std::size_t>(rank)].stretches;
  const std::size_t begin = slower_since(ranks, rank, cost) ? slow_from(ranks, rank, cost) : 0;
  std::int64_t high = 0;
  for (std::size_t i = begin; i < stretches.size(); ++i) high += ratio_in(ranks, rank, i, cost) >= ratio ? 1 : 0;
  const std::int64_t count = std::ssize(stretches) - static_cast<std::int64_t>(begin);
  return count >= kFewestStretches && static_cast<double>(high) >= kMostStretches * static_cast<double>(count);
}

std::optional<std::int64_t> slower_since(const Ranks& ranks, std::int64_t rank,
                                         const std::function<double(const Stretch&)>& cost) {
  const auto& stretches = ranks[static_cast<std::size_t>(rank)].stretches;
  const std::size_t begin = slow_from(ranks, rank, cost);
  if (begin == 0 || begin == stretches.size()) return std::nullopt;
  // Before this stretch the rank was as fast as the others; otherwise the slowness comes and goes.
  for (std::size_t i = 0; i < begin; ++i) {
    if (ratio_in(ranks, rank, i, cost) >= kSlowerRank) return std::nullopt;
  }
  return stretches[begin].first_step;
}

}  // namespace lockstep::view
