// SPDX-License-Identifier: Apache-2.0
// The entry point of liblockstep-cuda.so. It uses no Lockstep symbols, because the program that loads it may be linked
// with static or shared libraries.
#include <string_view>

#include "lockstep/base/version.h"
#include "tensor/cuda/cuda_device.h"
#include "tensor/cuda/cuda_graph.h"
#include "tensor/cuda/cuda_memory.h"
#include "tensor/cuda_parts.h"

extern "C" __attribute__((visibility("default"))) const void* lockstep_cuda_parts(const char* version);

/// Returns the CudaParts; null if `version` is a different version of Lockstep.
const void* lockstep_cuda_parts(const char* version) {
  using namespace lockstep;
  static constexpr tensor::CudaParts kParts{.make_graph = tensor::make_cuda_graph,
                                            .memory_use = tensor::cuda_memory_use,
                                            .forget_memory = tensor::forget_cuda_memory,
                                            .stream = tensor::cuda_stream,
                                            .pci_address = tensor::cuda_pci_address,
                                            .name = tensor::cuda_name,
                                            .is_recording = tensor::cuda_is_recording};
  return std::string_view(version) == kVersion ? &kParts : nullptr;
}
