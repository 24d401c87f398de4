// SPDX-License-Identifier: Apache-2.0
// A reduction in tree order on plain tensors: every backend's result equals it bit for bit.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/rand.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "comm/core/tree_reduce.h"

namespace lockstep::comm {

inline const std::vector<at::ScalarType> kDtypes = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kInt,
                                                    at::kLong,  at::kByte,     at::kChar, at::kShort,  at::kBool};

inline std::vector<ReduceOp> ops_for(at::ScalarType dtype) {
  if (c10::isIntegralType(dtype, true)) {
    return {ReduceOp::kSum,    ReduceOp::kMin,   ReduceOp::kMax,   ReduceOp::kProduct,
            ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor};
  }
  return {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
}

/// Random numbers, drawn once, because a sweep uses the same numbers for each dtype and operation.
inline const at::Tensor& random_doubles(std::int64_t count, int rank) {
  thread_local std::map<std::pair<std::int64_t, int>, at::Tensor> drawn;
  at::Tensor& values = drawn[{count, rank}];
  if (!values.defined()) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(rank * 7919 + count));
    values = at::rand({count}, generator, at::kDouble).sub(0.5).mul(2000.0);
  }
  return values;
}

/// Values whose sum depends on the order. They are the same on every rank.
inline at::Tensor random_values(at::ScalarType dtype, std::int64_t count, int rank) {
  const at::Tensor values = random_doubles(count, rank);
  if (dtype == at::kBool) return values.gt(0);
  // Wraps around in narrow integers, on purpose.
  return c10::isIntegralType(dtype, false) ? values.to(at::kLong).to(dtype)
                                           : values.to(dtype, /*non_blocking=*/false, /*copy=*/true);
}

inline at::Tensor model_tree(const std::vector<at::Tensor>& wide, int lo, int hi, ReduceOp op) {
  if (hi - lo == 1) return wide[static_cast<std::size_t>(lo)];
  int power = 1;
  while (power * 2 < hi - lo) power *= 2;
  const at::Tensor left = model_tree(wide, lo, lo + power, op);
  const at::Tensor right = model_tree(wide, lo + power, hi, op);
  if (op == ReduceOp::kMin) return at::minimum(left, right);
  if (op == ReduceOp::kMax) return at::maximum(left, right);
  if (op == ReduceOp::kProduct) return left.mul(right);
  if (op == ReduceOp::kBitAnd) return at::bitwise_and(left, right);
  if (op == ReduceOp::kBitOr) return at::bitwise_or(left, right);
  if (op == ReduceOp::kBitXor) return at::bitwise_xor(left, right);
  return left.add(right);
}

inline at::Tensor model(const std::vector<at::Tensor>& inputs, ReduceOp op) {
  const auto dtype = inputs.front().scalar_type();
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  std::vector<at::Tensor> wide;
  for (const at::Tensor& input : inputs) wide.push_back(narrow ? input.to(at::kFloat) : input);
  at::Tensor result = model_tree(wide, 0, static_cast<int>(wide.size()), op);
  if (op == ReduceOp::kMean) result = result.div(static_cast<double>(inputs.size()));
  return result.to(dtype).clone();
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor left = a.contiguous();
  const at::Tensor right = b.contiguous();
  return left.numel() == 0 || std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

}  // namespace lockstep::comm
