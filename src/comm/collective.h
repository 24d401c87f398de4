// SPDX-License-Identifier: Apache-2.0
// One collective as the backends see it: bytes, a dtype, a deadline. No tensors.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::comm {

enum class Kind : std::uint8_t { kAllReduce, kBroadcast, kAllGather, kBarrier };

/// What must be equal on all ranks; they exchange it, byte for byte, before they touch data.
struct Descriptor {
  std::uint64_t sequence = 0;
  std::int64_t numel = 0;
  std::int32_t root = 0;
  Kind kind = Kind::kBarrier;
  std::uint8_t op = 0;
  std::int8_t dtype = 0;
  std::uint8_t unused = 0;

  bool operator==(const Descriptor&) const = default;
};

struct Collective {
  Descriptor what;
  std::size_t bytes = 0;  ///< of this rank's data
  std::size_t item_bytes = 1;
  std::byte* data = nullptr;             ///< all_reduce, broadcast: read and written; all_gather: read
  std::vector<std::byte*> outputs = {};  ///< all_gather: one per rank
  std::chrono::steady_clock::time_point deadline = {};
  std::chrono::milliseconds timeout{0};
  bool caller_waits = false;  ///< it runs in a thread that has nothing else to do
};

[[nodiscard]] ReduceOp op_of(const Descriptor& what);
[[nodiscard]] c10::ScalarType dtype_of(const Descriptor& what);

/// "all_reduce": lives for the whole program.
[[nodiscard]] const char* name_of(Kind kind);

/// "all_reduce(sum) of 12 float32".
[[nodiscard]] std::string call_text(const Descriptor& what);

/// "operation 418, 26.2 MB, world 8".
[[nodiscard]] std::string context_text(const Collective& collective, int world);

/// "float32".
[[nodiscard]] std::string dtype_name(c10::ScalarType dtype);

}  // namespace lockstep::comm
