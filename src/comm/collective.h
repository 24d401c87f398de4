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
#include "lockstep/comm/replicas.h"

namespace lockstep::comm {

enum class Kind : std::uint8_t { kAllReduce, kBroadcast, kAllGather, kBarrier };

/// What must be equal on all ranks; they exchange it, byte for byte, before they touch data.
struct Descriptor {
  std::uint64_t sequence = 0;
  std::int64_t numel = 0;
  std::int32_t root = 0;
  std::int32_t replicas = 0;  ///< as ReduceOptions::replicas
  Kind kind = Kind::kBarrier;
  std::uint8_t op = 0;
  std::int8_t dtype = 0;
  std::uint8_t exact = 1;
  std::uint8_t unused[4] = {};

  bool operator==(const Descriptor&) const = default;
};

struct Collective {
  Descriptor what;
  std::size_t bytes = 0;  ///< of one row of this rank's data
  int rows = 1;           ///< of this rank's data: all_reduce over replicas has one per partial sum
  std::size_t item_bytes = 1;
  std::byte* data = nullptr;             ///< all_reduce, broadcast: read and written; all_gather: read
  std::vector<std::byte*> outputs = {};  ///< all_gather: one per rank
  std::chrono::steady_clock::time_point deadline = {};
  std::chrono::milliseconds timeout{0};
  bool caller_waits = false;  ///< it runs in a thread that has nothing else to do
};

/// Where one of the partial sums of an all_reduce lies, and what it is the sum of.
struct Piece {
  int rank = 0;
  int row = 0;
  ReplicaSpan span;
};

/// All partial sums of an all_reduce, in tree order.
[[nodiscard]] std::vector<Piece> pieces_of(const Descriptor& what, int world);

/// The most rows that any rank has.
[[nodiscard]] int most_rows(const std::vector<Piece>& pieces);

/// What a mean divides by.
[[nodiscard]] int divisor_of(const Descriptor& what, int world);

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
