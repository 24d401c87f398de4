// SPDX-License-Identifier: Apache-2.0
// MemoryWatch: libtorch's allocators report to it the memory that a thread allocates and frees. libtorch has one such
// listener per thread and shares it with the threads that run the thread's backward passes.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/tensor/named_tensors.h"

namespace lockstep::observe {

/// Finds the module to which a tensor belongs, as a parameter or as a view of a parameter.
class LayersOfMemory {
 public:
  LayersOfMemory() = default;
  /// The module of a parameter "layers.0.weight" is "layers.0".
  explicit LayersOfMemory(const NamedTensors& parameters);

  /// Returns the module of the first input that is in the memory of a parameter; nullptr: there is none. An input may
  /// be a list, such as an LSTM's weights.
  [[nodiscard]] const std::string* layer_of(c10::ArrayRef<const c10::IValue> inputs) const;

 private:
  struct Range {
    const char* end;
    std::string module;
  };
  [[nodiscard]] const std::string* layer_of(const at::Tensor& tensor) const;

  std::map<const char*, Range> ranges_;
};

/// Called on the thread that allocates memory (`bytes` above 0) or frees it (below 0).
using MemoryListener = void (*)(const void* address, std::int64_t bytes);

/// Listens on the thread that created it, from its construction to stop(). Other profilers get no events then.
class MemoryWatch {
 public:
  explicit MemoryWatch(MemoryListener listener);
  /// Stops the calls to the listener. If called on a thread other than the one that created the watch, the watch stays
  /// registered.
  void stop() noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;
  std::thread::id thread_;
};

}  // namespace lockstep::observe
