// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::testing::nccl_double {
namespace {

template <class T>
T folded(T one, T other, nccl::RedOp op) {
  switch (op) {
    case nccl::kSum:
      return static_cast<T>(one + other);
    case nccl::kProd:
      return static_cast<T>(one * other);
    case nccl::kMax:
      return std::max(one, other);
    case nccl::kMin:
      break;
  }
  return std::min(one, other);
}

template <class T>
void fold_all(std::byte* sum, const std::byte* other, std::size_t count, nccl::RedOp op) {
  auto* to = reinterpret_cast<T*>(sum);
  const auto* from = reinterpret_cast<const T*>(other);
  for (std::size_t i = 0; i < count; ++i) to[i] = folded(to[i], from[i], op);
}

}  // namespace

std::size_t size_of(nccl::DataType type) {
  switch (type) {
    case nccl::kInt8:
    case nccl::kUint8:
      return 1;
    case nccl::kFloat16:
    case nccl::kBfloat16:
      return 2;
    case nccl::kInt64:
    case nccl::kFloat64:
      return 8;
    default:
      return 4;
  }
}

void fold(std::byte* sum, const std::byte* other, std::size_t count, nccl::DataType type, nccl::RedOp op) {
  switch (type) {
    case nccl::kInt8:
      return fold_all<std::int8_t>(sum, other, count, op);
    case nccl::kUint8:
      return fold_all<std::uint8_t>(sum, other, count, op);
    case nccl::kInt32:
      return fold_all<std::int32_t>(sum, other, count, op);
    case nccl::kInt64:
      return fold_all<std::int64_t>(sum, other, count, op);
    case nccl::kFloat16:
      return fold_all<c10::Half>(sum, other, count, op);
    case nccl::kFloat32:
      return fold_all<float>(sum, other, count, op);
    case nccl::kFloat64:
      return fold_all<double>(sum, other, count, op);
    case nccl::kBfloat16:
      return fold_all<c10::BFloat16>(sum, other, count, op);
  }
}

}  // namespace lockstep::testing::nccl_double
