// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/replica_backward.h"

#include <algorithm>

namespace lockstep::parallel {

void ReplicaBackward::begin(std::size_t parameters) {
  running = true;
  reached = whole = synced = started = false;
  arrivals = 0;
  counts.assign(parameters, 0);
  contributed.assign(parameters, false);
  order.clear();
}

void ReplicaBackward::end() {
  running = false;
  std::erase_if(forwards, [](const auto& one) {
    const auto forward = one.lock();
    return !forward || forward->reached;
  });
  armed = !forwards.empty();
}

std::vector<std::size_t> ReplicaBackward::recorded_order() const {
  std::vector<std::size_t> last_first;
  for (auto index = order.rbegin(); index != order.rend(); ++index) {
    if (std::find(last_first.begin(), last_first.end(), *index) == last_first.end()) last_first.push_back(*index);
  }
  std::reverse(last_first.begin(), last_first.end());
  return last_first;
}

std::vector<std::size_t> ReplicaBackward::missing() const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < contributed.size(); ++i) {
    if (!contributed[i]) indices.push_back(i);
  }
  return indices;
}

std::vector<std::size_t> ReplicaBackward::unreachable() const {
  std::vector<bool> reachable;
  for (const auto& one : forwards) {
    const auto forward = one.lock();
    if (!forward) continue;
    reachable.resize(counts.size());
    for (std::size_t i = 0; i < reachable.size(); ++i) reachable[i] = reachable[i] || forward->reachable[i];
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < reachable.size(); ++i) {
    if (!reachable[i] && counts[i] == 0) indices.push_back(i);
  }
  return indices;
}

}  // namespace lockstep::parallel
