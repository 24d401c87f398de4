// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.h"

#include <fmt/format.h>

#include "lockstep/base/text.h"

namespace lockstep::comm {

ReduceOp op_of(const Descriptor& what) { return static_cast<ReduceOp>(what.op); }

c10::ScalarType dtype_of(const Descriptor& what) { return static_cast<c10::ScalarType>(what.dtype); }

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
