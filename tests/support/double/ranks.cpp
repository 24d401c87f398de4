// SPDX-License-Identifier: Apache-2.0
#include "support/double/ranks.h"

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

RanksOptions ranks_on_gpus(int world, std::map<std::string, std::string> env) {
  env.try_emplace("LOCKSTEP_DEVICE", "cuda");
  env.try_emplace("LOCKSTEP_DOUBLE_GPUS", std::to_string(world));
  env.try_emplace("LOCKSTEP_NCCL", LOCKSTEP_NCCL_DOUBLE);
  return {.world = world, .env = std::move(env)};
}

std::vector<std::string> found_races() { return make_believe::Ledger::instance().take_races(); }

}  // namespace lockstep::testing
