// SPDX-License-Identifier: Apache-2.0
#include "comm/core/collective.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/core/patience.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/recorder.h"

namespace lockstep {

ElementRange shard_of(std::int64_t numel, int world, int rank) {
  const std::int64_t share = (numel + world - 1) / world;
  return {std::min(numel, share * rank), std::min(numel, share * (rank + 1))};
}

namespace comm {

TimePoint end_of(const Collective& collective) {
  static Patience patience;
  return std::max(collective.deadline,
                  patience.end(flight::patience(), SystemClock::instance().now(), AwakeClock::instance().now()));
}

ReduceOp op_of(const Descriptor& call) { return static_cast<ReduceOp>(call.op); }

c10::ScalarType dtype_of(const Descriptor& call) { return static_cast<c10::ScalarType>(call.dtype); }

std::vector<Piece> pieces_of(const Descriptor& call, int world) {
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    if (call.replicas == 0 || call.exact == 0) {
      pieces.push_back({rank, 0, {rank, rank + 1}});
      continue;
    }
    int row = 0;
    for (const ReplicaSpan& span : whole_subtrees(replicas_of_rank(rank, world, call.replicas), call.replicas)) {
      pieces.push_back({rank, row++, span});
    }
  }
  return pieces;
}

int most_rows(const std::vector<Piece>& pieces) {
  int most = 1;
  for (const Piece& piece : pieces) most = std::max(most, piece.row + 1);
  return most;
}

int divisor_of(const Descriptor& call, int world) { return call.replicas == 0 ? world : call.replicas; }

ElementRange result_range(const Descriptor& call, int world, int rank) {
  switch (call.kind) {
    case Kind::kReduceScatter:
      return shard_of(call.numel, world, rank);
    case Kind::kReduce:
      return {0, rank == call.root ? call.numel : 0};
    default:
      return {0, call.numel};
  }
}

const char* name_of(Kind kind) {
  static constexpr const char* kNames[] = {
      "all_reduce", "reduce",  "reduce_scatter", "broadcast", "all_gather", "all_gather_into",  "all_to_all",
      "gather",     "scatter", "send",           "recv",      "barrier",    "ncclCommInitRank", "step graph"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

bool has_root(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather || kind == Kind::kScatter;
}

/// Returns "(sum, root 1)"; empty if there are no details.
std::string details_text(const Descriptor& call) {
  static constexpr const char* kOps[] = {"sum", "mean", "min", "max", "product", "bit_and", "bit_or", "bit_xor"};
  std::vector<std::string> details;
  if (is_reduction(call.kind)) details.emplace_back(kOps[call.op & 7]);
  if (has_root(call.kind)) details.push_back(fmt::format("root {}", call.root));
  if (is_reduction(call.kind) && call.exact == 0) details.emplace_back("not exact");
  return details.empty() ? "" : fmt::format("({})", text::join(details));
}

}  // namespace

std::string call_text(const Descriptor& call) {
  if (call.kind == Kind::kBarrier) return "barrier";
  if (call.kind == Kind::kStepGraph) return fmt::format("step graph {:016x}", call.counts_digest);
  std::string details = details_text(call);
  if (call.replicas != 0) details += fmt::format(" over {} replicas", call.replicas);
  const char* total = call.counts_digest != 0 ? " in all" : "";
  return fmt::format("{}{} of {} {}{}", name_of(call.kind), details, text::thousands(call.numel),
                     dtype_name(dtype_of(call)), total);
}

std::string context_text(const Collective& collective, int world) {
  const std::string step = collective.step < 0 ? "" : fmt::format("step {}, ", collective.step);
  return fmt::format("{}operation {}, {}, world {}", step, collective.call.sequence, text::bytes(collective.bytes),
                     world);
}

std::string dtype_name(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::Bool:
      return "bool";
    default:
      return c10::toString(dtype);
  }
}

}  // namespace comm
}  // namespace lockstep
