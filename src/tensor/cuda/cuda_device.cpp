// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/cuda_device.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>

namespace lockstep::tensor {

void* cuda_stream(const c10::Stream& stream) { return c10::cuda::CUDAStream(stream).stream(); }

std::string cuda_pci_address(int gpu, std::string& problem) {
  std::array<char, 32> address{};
  const cudaError_t result = cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), gpu);
  if (result == cudaSuccess) return address.data();
  problem = cudaGetErrorString(result);
  return "";
}

std::string cuda_name(int gpu) {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, gpu) == cudaSuccess ? properties.name : "GPU";
}

}  // namespace lockstep::tensor
