// SPDX-License-Identifier: Apache-2.0
// LayersOfMemory: which module the memory of a tensor belongs to, as a parameter or as a view of one.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <map>
#include <string>

#include "lockstep/tensor/named_tensors.h"

namespace lockstep::observe {

class LayersOfMemory {
 public:
  LayersOfMemory() = default;
  /// Knows "layers.0" by its parameter "layers.0.weight".
  explicit LayersOfMemory(const NamedTensors& parameters);

  /// Returns the module of the first of these inputs that lies in a parameter; nullptr: of none. An input may be a
  /// list, such as an LSTM's weights.
  [[nodiscard]] const std::string* of(c10::ArrayRef<const c10::IValue> inputs) const;

 private:
  struct Range {
    const char* end;
    std::string module;
  };
  [[nodiscard]] const std::string* of(const at::Tensor& tensor) const;

  std::map<const char*, Range> ranges_;
};

}  // namespace lockstep::observe
