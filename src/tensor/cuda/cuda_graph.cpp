// SPDX-License-Identifier: Apache-2.0
// Records CUDA graphs with libtorch's own class, which gives a recording its own memory and handles random numbers.
#include <ATen/core/ivalue.h>  // before any other torch header

#include "tensor/cuda/cuda_graph.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tensor/recorded_stream.h"

namespace lockstep::tensor {
namespace {

/// One memory pool for all recordings that live at the same time: they are replayed one after another, on one stream.
/// The allocator rejects a pool that has lost its last recording. Thread-safe: no; only the training thread uses it.
class SharedPool {
 public:
  [[nodiscard]] auto join() {
    if (users_++ == 0) pool_ = at::cuda::graph_pool_handle();
    return pool_;
  }
  /// Returns true if other recordings still use the pool.
  [[nodiscard]] bool leave() { return --users_ > 0; }

 private:
  int users_ = 0;
  decltype(at::cuda::graph_pool_handle()) pool_{};
};

SharedPool& shared_pool() {
  static SharedPool pool;
  return pool;
}

/// libtorch 1.13 has no capture modes: there, a call by any thread may break a recording.
template <class Graph, class Pool>
concept KnowsModes = requires(Graph& graph, const Pool& pool) {
  graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
};

/// libtorch's graph, extended so that it can abandon a recording that failed.
class Recording final : public at::cuda::CUDAGraph {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (joined_ && shared_pool().leave()) keep_workspaces(*this);
  }

  void begin() {
    joined_ = true;
    begin_in(*this, shared_pool().join());
  }

  /// Ends a recording that failed. capture_end() fails as well, before the allocator and the generator have left the
  /// recording, so this function makes them leave it. Returns true if both have left.
  bool abandon() noexcept {
    try {
      capture_end();
    } catch (const std::exception&) {
    }
    (void)cudaGetLastError();  // clears the error, which the next checked call would report
    return give_back(*this);
  }

 private:
  /// From version 2.14 on, libtorch's destructor frees cuBLAS's workspaces of the graph's stream, which the other
  /// recordings use as well. This function makes it free those of the default stream, which no graph uses, because that
  /// stream cannot be recorded. The last recording frees the workspaces of the recorded stream.
  template <class Graph>
  static void keep_workspaces(Graph& graph) {
    if constexpr (requires { c10::cuda::getDefaultCUDAStream(graph.capture_stream_.device_index()); }) {
      graph.capture_stream_ = c10::cuda::getDefaultCUDAStream(graph.capture_stream_.device_index());
    }
  }

  /// Begins in a mode in which only this thread's calls can break the recording, because loader threads keep
  /// allocating.
  template <class Graph, class Pool>
  static void begin_in(Graph& graph, const Pool& pool) {
    if constexpr (KnowsModes<Graph, Pool>) {
      graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    } else {
      graph.capture_begin(pool);
    }
  }

  /// Before libtorch 2.14, a generator takes part in at most one recording.
  template <class State>
  static void leave(State& state) {
    if constexpr (requires { state.capturing_ = false; }) state.capturing_ = false;
  }

  template <class Graph>
  static bool give_back(Graph& graph) noexcept {
    if constexpr (requires { graph.captured_generator_states_.begin()->first; }) {
      for (const auto& entry : graph.captured_generator_states_) leave(*entry.first);
      try {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(graph.capture_dev_, graph.mempool_id_);
        c10::cuda::CUDACachingAllocator::releasePool(graph.capture_dev_, graph.mempool_id_);
      } catch (const std::exception&) {
        // The recording had not begun, or capture_end() has already ended it: versions differ in the order.
      }
      return true;
    } else {
      return false;
    }
  }

  bool joined_ = false;
};

/// The running operators, innermost last. Only the training thread and autograd's thread use it, alternately.
std::vector<const char*>& running() {
  static std::vector<const char*> names;
  return names;
}

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  running().push_back(function.name());
  return nullptr;
}

void end_operator(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
  if (!running().empty()) running().pop_back();
}

/// Collects warnings about synchronizations. Warnings from autograd's thread arrive when backward has ended.
class WaitWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("synchronizing CUDA operation") == std::string::npos) return;
    found_.emplace_back(running().empty() ? "backward" : running().back());
  }
  [[nodiscard]] const std::vector<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> found_;
};

/// For its lifetime, makes libtorch warn about waits for the device.
class WarnsOfWaits {
 public:
  explicit WarnsOfWaits(WaitWarnings& warnings)
      : guard_(&warnings),
        always_(c10::WarningUtils::get_warnAlways()),
        observer_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin_operator, end_operator))) {
    c10::WarningUtils::set_warnAlways(true);
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~WarnsOfWaits() {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
    c10::WarningUtils::set_warnAlways(always_);
    at::removeCallback(observer_);
    running().clear();
  }
  WarnsOfWaits(const WarnsOfWaits&) = delete;
  WarnsOfWaits& operator=(const WarnsOfWaits&) = delete;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
  bool always_;
  at::CallbackHandle observer_;
};

class CudaGraph final : public DeviceGraph {
 public:
  std::shared_ptr<void> enter() override { return std::make_shared<OnRecordedStream>(); }

  void record(const std::function<void()>& work) override {
    const OnRecordedStream stream;
    recorded_stream().synchronize();  // also waits for the earlier work of the current stream
    try {
      graph_.begin();
      work();
      graph_.capture_end();
    } catch (...) {
      intact_ = graph_.abandon();
      throw;
    }
  }

  [[nodiscard]] bool lets_other_threads() const noexcept override {
    return KnowsModes<at::cuda::CUDAGraph, decltype(at::cuda::graph_pool_handle())>;
  }

  [[nodiscard]] bool intact() const noexcept override { return intact_; }

  [[nodiscard]] std::vector<std::string> waits(const std::function<void()>& work) override {
    WaitWarnings warnings;
    const WarnsOfWaits watched(warnings);
    work();
    return warnings.found();
  }

  void replay() override { graph_.replay(); }

 private:
  Recording graph_;
  bool intact_ = false;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_cuda_graph() { return std::make_unique<CudaGraph>(); }

bool cuda_is_recording() { return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None; }

}  // namespace lockstep::tensor
