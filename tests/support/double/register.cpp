// SPDX-License-Identifier: Apache-2.0
// Presents fake GPUs to Lockstep as GPUs: their streams, memory and graphs.
#include "support/double/graph.h"
#include "support/double/ledger.h"
#include "support/double/recording.h"
#include "support/double/streams.h"
#include "tensor/cuda_parts.h"

namespace lockstep::testing {
namespace {

/// The pointer that Lockstep passes to NCCL as its cudaStream_t.
void* handle_of(const c10::Stream& stream) {
  make_believe::StreamHandle& handle = make_believe::stream_of(stream);
  return &handle;
}

/// The memory use of a rank, which uses a single GPU in these tests.
MemoryUse memory_of(int /*gpu*/) { return {.peak = make_believe::Ledger::instance().peak(), .reserved = std::nullopt}; }

void forget_memory(int /*gpu*/) { make_believe::Ledger::instance().restart_peak(); }

std::string name_of(int /*gpu*/) { return "simulated GPU"; }

std::string address_of(int gpu, std::string& /*problem*/) { return std::to_string(gpu); }

const bool kIsKnown = [] {
  static constexpr tensor::CudaParts kParts{.make_graph = make_believe::make_graph,
                                            .memory_use = memory_of,
                                            .forget_memory = forget_memory,
                                            .stream = handle_of,
                                            .pci_address = address_of,
                                            .name = name_of,
                                            .is_recording = make_believe::is_recording};
  tensor::make_believe_parts() = &kParts;
  return true;
}();

}  // namespace
}  // namespace lockstep::testing
