// SPDX-License-Identifier: Apache-2.0
// One collective, as the backends see it: bytes, a dtype, a deadline. No tensors.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/fault.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"

namespace lockstep::comm {

/// The kinds of collectives. The order matters: up to kReduceScatter they combine values, up to kScatter they only move
/// bytes.
enum class Kind : std::uint8_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllGather,
  kAllGatherInto,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
  kBarrier,
  kConnect,   ///< no collective: a GPU's transport connects
  kStepGraph  ///< all collectives of a recorded step
};

/// The values that must be equal on all ranks. Ranks exchange them, byte for byte, before they touch data.
struct Descriptor {
  std::uint64_t sequence = 0;
  std::int64_t numel = 0;           ///< elements of a row; if ranks have different numbers, of all ranks together
  std::uint64_t counts_digest = 0;  ///< of `counts`; of kStepGraph that of its collectives
  std::int32_t root = 0;
  std::int32_t replicas = 0;  ///< as ReduceOptions::replicas
  Kind kind = Kind::kBarrier;
  std::uint8_t op = 0;
  std::int8_t dtype = 0;
  std::uint8_t exact = 1;
  std::uint8_t unused[4] = {};

  bool operator==(const Descriptor&) const = default;
};

/// The number of elements of each rank, if they differ: by rank; for all_to_all by rank * world + receiver.
using Counts = std::shared_ptr<const std::vector<std::int64_t>>;

struct Collective {
  Descriptor call;
  std::size_t bytes = 0;  ///< bytes of one row of this rank's data
  int rows = 1;           ///< rows of this rank's data: reductions over replicas have one per partial sum
  std::size_t item_bytes = 1;
  const std::byte* data = nullptr;  ///< this rank's data
  std::byte* output = nullptr;      ///< the result's place; may be part of `data`
  Counts counts = nullptr;
  TimePoint deadline = {};  ///< a moment of AwakeClock
  std::chrono::milliseconds timeout{0};
  bool caller_waits = false;                ///< it runs in a thread that has no other work
  std::int64_t step = fault::noted_step();  ///< the training step in which it was called; -1: unknown
  int bucket = -1;                          ///< the number of a gradient bucket, of `buckets`
  int buckets = 0;
  bool on_device = false;  ///< data and output are on a device: hosts only compare their calls
};

/// Returns the time when the operation gives up, as a moment of AwakeClock: at its deadline, or later while the
/// launcher sees another rank at long work. A waiting thread calls it again after kAwakeLook at the latest.
[[nodiscard]] TimePoint end_of(const Collective& collective);

[[nodiscard]] inline bool is_reduction(Kind kind) { return kind <= Kind::kReduceScatter; }
[[nodiscard]] inline bool is_move(Kind kind) { return kind > Kind::kReduceScatter && kind <= Kind::kScatter; }

/// The place of a partial sum of a reduction, and the replicas in the sum.
struct Piece {
  int rank = 0;
  int row = 0;
  ReplicaSpan span;
};

/// All partial sums of a reduction, in tree order.
[[nodiscard]] std::vector<Piece> pieces_of(const Descriptor& call, int world);

/// Returns the largest number of rows of any rank.
[[nodiscard]] int most_rows(const std::vector<Piece>& pieces);

/// Returns the divisor of a mean.
[[nodiscard]] int divisor_of(const Descriptor& call, int world);

[[nodiscard]] ReduceOp op_of(const Descriptor& call);
[[nodiscard]] c10::ScalarType dtype_of(const Descriptor& call);

/// Returns the elements of a reduction's result on `rank`.
[[nodiscard]] ElementRange result_range(const Descriptor& call, int world, int rank);

/// Returns "all_reduce"; it lives for the whole program.
[[nodiscard]] const char* name_of(Kind kind);

/// Returns "all_reduce(sum) of 12 float32".
[[nodiscard]] std::string call_text(const Descriptor& call);

/// Returns "operation 418, 26.2 MB, world 8".
[[nodiscard]] std::string context_text(const Collective& collective, int world);

/// Returns "float32".
[[nodiscard]] std::string dtype_name(c10::ScalarType dtype);

}  // namespace lockstep::comm
