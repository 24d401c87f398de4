// SPDX-License-Identifier: Apache-2.0
#include "worker/explain/spikes.h"

#include <algorithm>
#include <cmath>

#include "worker/median.h"

namespace lockstep::worker {

std::vector<Spike> largest_spikes(const view::Curve& loss, std::size_t limit) {
  constexpr std::size_t kWindow = 20;
  constexpr std::size_t kLeast = 3;
  std::vector<Spike> spikes;
  for (std::size_t i = kLeast; i < loss.size(); ++i) {
    std::vector<double> before;
    for (std::size_t j = i > kWindow ? i - kWindow : 0; j < i; ++j) before.push_back(loss[j].value);
    const double usual = median(before);
    if (!(loss[i].value > usual)) continue;
    for (double& value : before) value = std::abs(value - usual);
    const double deviation = std::max(median(before), 1e-12 * (1 + std::abs(usual)));
    spikes.push_back({loss[i].step, loss[i].value, usual, (loss[i].value - usual) / deviation});
  }
  std::stable_sort(spikes.begin(), spikes.end(), [](const auto& a, const auto& b) { return a.jump > b.jump; });
  if (spikes.size() > limit) spikes.resize(limit);
  return spikes;
}

}  // namespace lockstep::worker
