// SPDX-License-Identifier: Apache-2.0
// Numbers that the scripts in tests/recipes/golden compute in the same way.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/TensorOperators.h>

#include <cstdint>
#include <string>

namespace lockstep::test {

/// Numbers in [0, 1) with 24 bits, as float64: a multiplicative hash of index and name (FNV-1a of 32 bits).
inline at::Tensor fractions(const std::string& name, at::IntArrayRef shape) {
  constexpr std::int64_t kWord = 0xFFFFFFFF;
  std::uint32_t salt = 2166136261U;
  for (const char byte : name) salt = (salt ^ static_cast<std::uint8_t>(byte)) * 16777619U;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  at::Tensor hashed = at::arange(count, at::kLong);
  hashed.mul_(2654435761).add_(static_cast<std::int64_t>(salt) * 40503 + 12345).bitwise_and_(kWord);
  hashed.bitwise_xor_(hashed.bitwise_right_shift(15)).mul_(2246822519).bitwise_and_(kWord);
  return hashed.bitwise_right_shift_(8).to(at::kDouble).div_(1 << 24).view(shape);
}

}  // namespace lockstep::test
