// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda_parts.h"

#include <fmt/format.h>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/device.h"

namespace lockstep::tensor {

const CudaParts* cuda_parts() { return static_cast<const CudaParts*>(cuda::library().parts); }

const CudaParts& require_cuda_parts(std::string_view without) {
  if (const CudaParts* parts = cuda_parts()) return *parts;
  const cuda::Obstacle& obstacle = cuda::library().obstacle;
  throw UsageError(fmt::format("{}, since {}", without, obstacle.what), obstacle.remedy);
}

MemoryOfGpu& make_believe_memory() {
  static MemoryOfGpu memory = nullptr;
  return memory;
}

void* native_stream(const c10::Stream& stream) { return require_cuda_parts("a stream has no handle").stream(stream); }

std::string pci_address(int gpu) {
  std::string problem;
  std::string address = require_cuda_parts(fmt::format("GPU {} has no address", gpu)).pci_address(gpu, problem);
  if (!problem.empty()) throw ResourceError(fmt::format("GPU {} has no address on the PCI bus: {}", gpu, problem));
  return address;
}

std::unique_ptr<DeviceGraph> make_device_graph() {
  const CudaParts* parts = cuda_parts();
  return parts == nullptr ? nullptr : parts->make_graph();
}

}  // namespace lockstep::tensor
