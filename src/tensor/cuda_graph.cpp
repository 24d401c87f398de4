// SPDX-License-Identifier: Apache-2.0
// CUDA graphs through libtorch's own class, which gives a recording memory of its own and takes care of random numbers.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>

#include "lockstep/tensor/device_graph.h"

namespace lockstep::tensor {
namespace {

/// Only this thread's calls may break the recording: loader threads go on allocating. 1.13 knows no modes yet.
template <class Graph>
void begin(Graph& graph) {
  if constexpr (requires { graph.capture_begin(graph.pool(), cudaStreamCaptureModeThreadLocal); }) {
    graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  } else {
    graph.capture_begin();
  }
}

class CudaGraph final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream before = c10::cuda::getCurrentCUDAStream();
    before.synchronize();
    // The default stream cannot be recorded.
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
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
