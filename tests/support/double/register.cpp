// SPDX-License-Identifier: Apache-2.0
// Shows a program that has make-believe GPUs to Lockstep as one that has GPUs: their streams, and their memory.
#include "comm/backends/nccl/cuda_device.h"
#include "support/double/ledger.h"
#include "support/double/streams.h"
#include "tensor/cuda_parts.h"

namespace lockstep::testing {
namespace {

/// What Lockstep hands to NCCL as a cudaStream_t.
nccl::Stream handle_of(const c10::Stream& stream) {
  make_believe::StreamHandle& handle = make_believe::stream_of(stream);
  return reinterpret_cast<nccl::Stream>(&handle);
}

/// A rank of these tests computes on one GPU.
MemoryUse memory_of(int /*gpu*/) { return {.peak = make_believe::Ledger::instance().peak(), .reserved = std::nullopt}; }

const bool kIsKnown = [] {
  comm::handle_of_stream() = handle_of;
  tensor::make_believe_memory() = memory_of;
  return true;
}();

}  // namespace
}  // namespace lockstep::testing
