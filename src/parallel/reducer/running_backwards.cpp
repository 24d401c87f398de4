// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/running_backwards.h"

#include <algorithm>

namespace lockstep::parallel {

RunningBackwards& RunningBackwards::instance() {
  static auto& one = *new RunningBackwards;  // never destroyed: a wrapper at namespace scope dies after main()
  return one;
}

void RunningBackwards::add(const ParameterOf& parameters) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(running_.begin(), running_.end(), &parameters) == running_.end()) running_.push_back(&parameters);
}

void RunningBackwards::remove(const ParameterOf& parameters) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(running_, &parameters);
}

bool RunningBackwards::has_other(const ParameterOf& own, const torch::autograd::Node* accumulator) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(running_.begin(), running_.end(), [&](const ParameterOf* parameters) {
    return parameters != &own && parameters->contains(accumulator);
  });
}

}  // namespace lockstep::parallel
