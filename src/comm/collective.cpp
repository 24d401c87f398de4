// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::comm {

ReduceOp op_of(const Descriptor& what) { return static_cast<ReduceOp>(what.op); }

c10::ScalarType dtype_of(const Descriptor& what) { return static_cast<c10::ScalarType>(what.dtype); }

std::vector<Piece> pieces_of(const Descriptor& what, int world) {
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    if (what.replicas == 0 || what.exact == 0) {
      pieces.push_back({rank, 0, {rank, rank + 1}});
      continue;
    }
    int row = 0;
    for (const ReplicaSpan& span : whole_subtrees(replicas_of_rank(rank, world, what.replicas), what.replicas)) {
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

int divisor_of(const Descriptor& what, int world) { return what.replicas == 0 ? world : what.replicas; }

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kBarrier:
      break;
  }
  return "barrier";
}

std::string call_text(const Descriptor& what) {
  static constexpr const char* kOps[] = {"sum", "mean", "min", "max"};
  if (what.kind == Kind::kBarrier) return "barrier";
  std::string detail;
  if (what.kind == Kind::kAllReduce) detail = fmt::format("({})", kOps[what.op & 3]);
  if (what.replicas != 0) detail += fmt::format(" over {} replicas", what.replicas);
  if (what.kind == Kind::kBroadcast) detail = fmt::format("(root {})", what.root);
  return fmt::format("{}{} of {} {}", name_of(what.kind), detail, text::thousands(what.numel),
                     dtype_name(dtype_of(what)));
}

std::string context_text(const Collective& collective, int world) {
  return fmt::format("operation {}, {}, world {}", collective.what.sequence, text::bytes(collective.bytes), world);
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

}  // namespace lockstep::comm
