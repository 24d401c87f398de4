// SPDX-License-Identifier: Apache-2.0
// Hooks behind the nodes that accumulate gradients.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "parallel/reducer/forward_pass.h"
#include "parallel/reducer/graph_node.h"

namespace lockstep::parallel {

/// Calls a function whenever a parameter's gradient has been accumulated, on the engine's thread that did it; the
/// destructor takes the hooks away.
class AutogradHooks {
 public:
  /// `defined` is false where only a part of the graph without gradients leads to the parameter.
  using Ready = std::function<void(std::size_t index, bool defined)>;

  AutogradHooks() = default;
  ~AutogradHooks();
  AutogradHooks(const AutogradHooks&) = delete;
  AutogradHooks& operator=(const AutogradHooks&) = delete;

  /// Call it once. `ready` must not own this object.
  void attach(const NamedTensors& parameters, const Ready& ready);

  [[nodiscard]] const ParameterOf& parameter_of() const { return parameter_of_; }

 private:
  std::vector<NodePointer> accumulators_;  ///< libtorch holds them weakly
  std::vector<std::uintptr_t> hooks_;
  ParameterOf parameter_of_;
};

}  // namespace lockstep::parallel
