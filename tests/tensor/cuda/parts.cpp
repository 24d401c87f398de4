// SPDX-License-Identifier: Apache-2.0
// A liblockstep-cuda.so for tests. It reports when it is loaded.
#include "tensor/cuda_parts.h"

#include <cstdio>
#include <string_view>

#include "lockstep/base/version.h"

namespace {

using namespace lockstep;

class NoGraph final : public tensor::DeviceGraph {
 public:
  void record(const std::function<void()>& work) override { work(); }
  void replay() override {}
};

std::unique_ptr<tensor::DeviceGraph> make_graph() { return std::make_unique<NoGraph>(); }
MemoryUse memory_use(int gpu) { return {.peak = 100 + gpu, .reserved = 200}; }
void forget_memory(int gpu) { std::printf("forgets GPU %d\n", gpu); }
void* stream(const c10::Stream& stream) { return reinterpret_cast<void*>(stream.id()); }

std::string pci_address(int gpu, std::string& problem) {
  if (gpu == 0) return "0000:3B:00.0";  // CUDA writes capital letters
  problem = "invalid device ordinal";
  return "";
}

std::string name(int gpu) { return gpu == 0 ? "NVIDIA A100-PCIE-40GB" : "GPU"; }

bool is_recording() { return true; }

const bool kSaid = std::puts("loaded") >= 0;

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* lockstep_cuda_parts(const char* version) {
  static constexpr tensor::CudaParts kParts{make_graph,  memory_use, forget_memory, stream,
                                            pci_address, name,       is_recording};
  return kSaid && std::string_view(version) == kVersion ? &kParts : nullptr;
}
