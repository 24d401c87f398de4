// SPDX-License-Identifier: Apache-2.0
// MemoryWatch: libtorch's allocators report to it the memory that a thread takes and gives back. libtorch has one such
// listener a thread, and shares it with the threads that run a backward for it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/tensor/named_tensors.h"

namespace lockstep::observe {

/// Finds the module to which the memory of a tensor belongs, as a parameter or as a view of one.
class LayersOfMemory {
 public:
  LayersOfMemory() = default;
  /// Finds "layers.0" by its parameter "layers.0.weight".
  explicit LayersOfMemory(const NamedTensors& parameters);

  /// Returns the module of the first of these inputs that lies in a parameter; nullptr: of none. An input may be a
  /// list, such as an LSTM's weights.
  [[nodiscard]] const std::string* layer_of(c10::ArrayRef<const c10::IValue> inputs) const;

 private:
  struct Range {
    const char* end;
    std::string module;
  };
  [[nodiscard]] const std::string* layer_of(const at::Tensor& tensor) const;

  std::map<const char*, Range> ranges_;
};

/// Called in the thread that takes memory (`bytes` above 0) or gives it back (below 0).
using MemoryListener = void (*)(const void* address, std::int64_t bytes);

/// Listens in the thread that made it, from its construction to stop(). Another profiler's listener is silent
/// meanwhile.
class MemoryWatch {
 public:
  explicit MemoryWatch(MemoryListener listener);
  /// In another thread than that of the construction, the watch stays in place and calls no listener.
  void stop() noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;
  std::thread::id thread_;
};

}  // namespace lockstep::observe
