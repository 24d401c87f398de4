// SPDX-License-Identifier: Apache-2.0
// One collective as the backends see it: bytes, a dtype and a deadline, without tensors.
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
  kConnect,   ///< not a collective: the transport of GPU tensors connects
  kStepGraph  ///< all collectives of a recorded step together
};

/// The values that must be equal on all ranks. Ranks exchange them, byte for byte, before they touch data.
struct Descriptor {
  std::uint64_t sequence = 0;
  std::int64_t numel = 0;           ///< elements of a row; if ranks have different numbers, the sum over all ranks
  std::uint64_t counts_digest = 0;  ///< digest of `counts`; for kStepGraph the digest of its collectives
  std::int32_t root = 0;
  std::int32_t replicas = 0;  ///< the value of ReduceOptions::replicas
  Kind kind = Kind::kBarrier;
  std::uint8_t op = 0;
  std::int8_t dtype = 0;
  std::uint8_t exact = 1;
  std::uint8_t unused[4] = {};

  bool operator==(const Descriptor&) const = default;
};

/// The number of elements of each rank, if they differ, indexed by rank; for all_to_all by rank * world + receiver.
using Counts = std::shared_ptr<const std::vector<std::int64_t>>;

struct Collective {
  Descriptor call;
  std::size_t bytes = 0;  ///< bytes of one row of this rank's data
  int rows = 1;           ///< rows of this rank's data: reductions over replicas have one per partial sum
  std::size_t item_bytes = 1;
  const std::byte* data = nullptr;  ///< this rank's data
  std::byte* output = nullptr;      ///< memory for the result; may be part of `data`
  Counts counts = nullptr;
  TimePoint deadline = {};  ///< an AwakeClock time
  std::chrono::milliseconds timeout{0};
  bool caller_waits = false;                ///< the operation runs on a thread that has no other work
  std::int64_t step = fault::noted_step();  ///< training step in which the collective was called; -1 if unknown
  int bucket = -1;                          ///< number of the gradient bucket, out of `buckets`
  int buckets = 0;
  bool on_device = false;  ///< data and output are on a device: the hosts only compare their calls
};

/// Returns the AwakeClock time at which the operation times out: its deadline, or later while the launcher sees another
/// rank in a long-running operation. A waiting thread calls it again at least every kAwakeLook.
[[nodiscard]] TimePoint end_of(const Collective& collective);

[[nodiscard]] inline bool is_reduction(Kind kind) { return kind <= Kind::kReduceScatter; }
[[nodiscard]] inline bool is_move(Kind kind) { return kind > Kind::kReduceScatter && kind <= Kind::kScatter; }

/// A partial sum of a reduction: the rank and the row that hold it, and the replicas in it.
struct Piece {
  int rank = 0;
  int row = 0;
  ReplicaSpan span;
};

/// Returns all partial sums of a reduction, in tree order.
[[nodiscard]] std::vector<Piece> pieces_of(const Descriptor& call, int world);

/// Returns the largest number of rows of any rank.
[[nodiscard]] int most_rows(const std::vector<Piece>& pieces);

/// Returns the divisor of a mean.
[[nodiscard]] int divisor_of(const Descriptor& call, int world);

[[nodiscard]] ReduceOp op_of(const Descriptor& call);
[[nodiscard]] c10::ScalarType dtype_of(const Descriptor& call);

/// Returns the elements of a reduction's result on `rank`.
[[nodiscard]] ElementRange result_range(const Descriptor& call, int world, int rank);

/// Returns the name, such as "all_reduce"; the string lives for the whole program.
[[nodiscard]] const char* name_of(Kind kind);

/// Returns "all_reduce(sum) of 12 float32".
[[nodiscard]] std::string call_text(const Descriptor& call);

/// Returns "operation 418, 26.2 MB, world 8".
[[nodiscard]] std::string context_text(const Collective& collective, int world);

/// Returns "float32".
[[nodiscard]] std::string dtype_name(c10::ScalarType dtype);

}  // namespace lockstep::comm
