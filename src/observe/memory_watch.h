// SPDX-License-Identifier: Apache-2.0
// MemoryWatch: hears from libtorch's allocators what a thread takes and gives back. libtorch knows one such listener a
// thread, and gives it to the threads that run a backward for it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdint>
#include <memory>
#include <thread>

namespace lockstep::observe {

/// Called in the thread that takes memory (`bytes` above 0) or gives it back (below 0).
using MemoryListener = void (*)(const void* address, std::int64_t bytes);

/// Listens in the thread that made it, from its construction to stop(). Another profiler's listener is silent
/// meanwhile.
class MemoryWatch {
 public:
  explicit MemoryWatch(MemoryListener listener);
  /// In another thread than that of the construction, the watch stays in place and calls nobody.
  void stop() noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;
  std::thread::id thread_;
};

}  // namespace lockstep::observe
