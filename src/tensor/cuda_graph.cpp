// SPDX-License-Identifier: Apache-2.0
// CUDA graphs through libtorch's own class, which gives a recording memory of its own and takes care of random numbers.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>

#include "lockstep/tensor/device_graph.h"

namespace lockstep::tensor {
namespace {

/// Only this thread's calls may break the recording: loader threads keep allocating. 1.13 knows no modes yet.
template <class Graph>
void begin(Graph& graph) {
  if constexpr (requires { graph.capture_begin(graph.pool(), cudaStreamCaptureModeThreadLocal); }) {
    graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  } else {
    graph.capture_begin();
  }
}

/// The default stream cannot be recorded.
c10::cuda::CUDAStream recorded_stream() {
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  return stream;
}

/// What `later` gets from here on runs after what `earlier` has.
void put_behind(const c10::cuda::CUDAStream& later, const c10::cuda::CUDAStream& earlier) {
  at::cuda::CUDAEvent event;
  event.record(earlier);
  event.block(later);
}

/// As DeviceGraph::enter.
class OnRecordedStream {
 public:
  OnRecordedStream() : before_(c10::cuda::getCurrentCUDAStream()), guard_(recorded_stream()) {
    put_behind(recorded_stream(), before_);
  }
  ~OnRecordedStream() {
    try {
      put_behind(before_, recorded_stream());
    } catch (const std::exception&) {
      // The device has failed: whoever uses it next is told so.
    }
  }
  OnRecordedStream(const OnRecordedStream&) = delete;
  OnRecordedStream& operator=(const OnRecordedStream&) = delete;

 private:
  c10::cuda::CUDAStream before_;
  c10::cuda::CUDAStreamGuard guard_;
};

class CudaGraph final : public DeviceGraph {
 public:
  std::shared_ptr<void> enter() override { return std::make_shared<OnRecordedStream>(); }

  void record(const std::function<void()>& work) override {
    const OnRecordedStream stream;
    recorded_stream().synchronize();  // and with it what the current stream had
    begin(graph_);
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  /// Ends a recording that failed. Ending it fails as well, and the error before it is the one to tell.
  void abandon() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
    }
    (void)cudaGetLastError();  // else the next call that is checked would report it
  }

  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_device_graph() { return std::make_unique<CudaGraph>(); }

}  // namespace lockstep::tensor
