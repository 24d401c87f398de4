// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda_parts.h"

#include <fmt/format.h>

#include <cctype>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/device.h"

namespace lockstep::tensor {

const CudaParts* cuda_parts() {
  if (make_believe_parts() != nullptr) return make_believe_parts();
  return static_cast<const CudaParts*>(cuda::library().parts);
}

bool has_cuda_parts() { return cuda_parts() != nullptr; }

const CudaParts& require_cuda_parts(std::string_view without) {
  if (const CudaParts* parts = cuda_parts()) return *parts;
  const cuda::Obstacle& obstacle = cuda::library().obstacle;
  throw UsageError(fmt::format("{}, since {}", without, obstacle.problem), obstacle.remedy);
}

const CudaParts*& make_believe_parts() {
  static const CudaParts* parts = nullptr;
  return parts;
}

void* native_stream(const c10::Stream& stream) {
  return require_cuda_parts("the handle of a stream cannot be read").stream(stream);
}

std::string pci_address(int gpu) {
  std::string problem;
  std::string address =
      require_cuda_parts(fmt::format("the PCI address of GPU {} cannot be read", gpu)).pci_address(gpu, problem);
  if (!problem.empty()) throw ResourceError(fmt::format("the PCI address of GPU {} cannot be read: {}", gpu, problem));
  // CUDA writes capital letters, /sys/bus/pci/devices small ones.
  for (char& letter : address) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return address;
}

std::string device_name(const c10::Device& device) {
  const CudaParts* parts = cuda_parts();
  return parts == nullptr ? "GPU" : parts->name(device.index());
}

std::unique_ptr<DeviceGraph> make_device_graph() {
  const CudaParts* parts = cuda_parts();
  return parts == nullptr ? nullptr : parts->make_graph();
}

bool is_recording() {
  const CudaParts* parts = cuda_parts();
  return parts != nullptr && parts->is_recording();
}

}  // namespace lockstep::tensor
