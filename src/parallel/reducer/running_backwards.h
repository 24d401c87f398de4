// SPDX-License-Identifier: Apache-2.0
// The backwards that run at present, for wrappers that share parameters.
#pragma once

#include <mutex>
#include <vector>

#include "parallel/reducer/forward_pass.h"

namespace lockstep::parallel {

/// The backwards that have passed through an output of their wrapper. A gradient of a shared parameter calls the hooks
/// of all wrappers; a wrapper that finds another one's backward here leaves the gradient to it. Thread-safe: yes.
class RunningBackwards {
 public:
  /// Returns the backwards of this process.
  [[nodiscard]] static RunningBackwards& instance();

  /// Adds the backward of a wrapper, by its parameters. Lifetime: `parameters` live until remove().
  void add(const ParameterOf& parameters);
  void remove(const ParameterOf& parameters);
  /// Returns true if a backward other than that of `own` accumulates in `accumulator`.
  [[nodiscard]] bool has_other(const ParameterOf& own, const torch::autograd::Node* accumulator);

 private:
  std::mutex mutex_;  ///< guards the member below
  std::vector<const ParameterOf*> running_;
};

}  // namespace lockstep::parallel
