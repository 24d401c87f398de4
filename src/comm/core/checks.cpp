// SPDX-License-Identifier: Apache-2.0
#include "comm/core/checks.h"

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include "comm/core/collective.h"
#include "comm/core/tree_reduce.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

constexpr const char* kDtypes = "float32, bfloat16, float16, float64, uint8, int8, int16, int32, int64 and bool";

void check_dense(const at::Tensor& tensor, const char* verb) {
  if (!tensor.defined()) throw UsageError(fmt::format("{} was given an undefined tensor", verb));
  if (tensor.layout() != c10::Layout::Strided) {
    throw UsageError(fmt::format("{} was given a tensor that is not dense", verb), "use .to_dense()");
  }
}

bool is_bitwise(ReduceOp op) { return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor; }

std::string sizes_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

}  // namespace

void check_reducible(const at::Tensor& tensor, ReduceOp op, const char* verb) {
  check_dense(tensor, verb);
  const auto dtype = tensor.scalar_type();
  if (!is_reducible(dtype)) {
    throw UsageError(fmt::format("{} cannot reduce {}: it supports {}", verb, dtype_name(dtype), kDtypes));
  }
  const bool integral = c10::isIntegralType(dtype, true);
  if (op == ReduceOp::kMean && integral) {
    throw UsageError(fmt::format("the mean of {} is not defined", dtype_name(dtype)),
                     "use ReduceOp::kSum, or convert to a floating type first");
  }
  if (is_bitwise(op) && !integral) {
    throw UsageError(fmt::format("a bitwise {} of {} is not defined", verb, dtype_name(dtype)), "use an integer type");
  }
}

void check_written(const at::Tensor& tensor, const char* verb) {
  if (!tensor.defined() || at::has_internal_overlap(tensor) != at::MemOverlap::Yes) return;
  throw UsageError(
      fmt::format("{} was given a tensor of shape {} whose elements share memory", verb, sizes_text(tensor)),
      "the result cannot be written there: pass tensor.contiguous()");
}

int check_rows(const at::Tensor& tensor, const ReduceOptions& options, Place place, const char* verb) {
  if (options.replicas == 0) return 1;
  if (options.replicas < place.world) {
    throw UsageError(fmt::format("{} over {} replicas in a world of {}: every rank needs at least one replica", verb,
                                 options.replicas, place.world));
  }
  const ReplicaSpan block = replicas_of_rank(place.rank, place.world, options.replicas);
  const auto rows = options.exact ? static_cast<int>(whole_subtrees(block, options.replicas).size()) : 1;
  if (tensor.dim() == 0 || tensor.size(0) != rows) {
    throw UsageError(fmt::format("{} over {} replicas was given {} rows on rank {} of {}, which needs {}", verb,
                                 options.replicas, tensor.dim() == 0 ? 0 : tensor.size(0), place.rank, place.world,
                                 rows));
  }
  return rows;
}

void check_copyable(const at::Tensor& tensor, const char* verb) {
  check_dense(tensor, verb);
  if (is_reducible(tensor.scalar_type())) return;
  throw UsageError(fmt::format("{} cannot send {}: it supports {}", verb, dtype_name(tensor.scalar_type()), kDtypes));
}

void check_partner(const at::Tensor& tensor, const at::Tensor& other, std::int64_t numel, const char* verb) {
  check_dense(other, verb);
  if (other.scalar_type() != tensor.scalar_type()) {
    throw UsageError(fmt::format("{} was given {} and {}: both must have the same dtype", verb,
                                 dtype_name(tensor.scalar_type()), dtype_name(other.scalar_type())));
  }
  if (other.numel() == numel) return;
  throw UsageError(
      fmt::format("{} was given a tensor of {} elements; it needs {} on this rank", verb, other.numel(), numel));
}

void check_root(int root, int world, const char* verb) {
  if (root >= 0 && root < world) return;
  throw UsageError(fmt::format("{}: rank {} cannot be the root in a world of {}", verb, root, world));
}

void check_peer(int peer, Place place, const char* verb) {
  if (peer >= 0 && peer < place.world && peer != place.rank) return;
  const char* why = peer == place.rank ? ", which is this rank itself" : "";
  throw UsageError(
      fmt::format("{} between rank {} and rank {}{}, in a world of {}", verb, place.rank, peer, why, place.world));
}

void check_divisible(const at::Tensor& tensor, int world, const char* verb) {
  if (tensor.dim() > 0 && tensor.size(0) % world == 0) return;
  throw UsageError(
      fmt::format("{} was given shape {} in a world of {}: the first dimension is not divisible by the number of ranks",
                  verb, sizes_text(tensor), world),
      "pad the tensor, or use all_to_all_uneven");
}

void check_list(const std::vector<at::Tensor>& tensors, int world, bool alike, const char* verb) {
  if (tensors.size() != static_cast<std::size_t>(world)) {
    throw UsageError(fmt::format("{} was given {} tensors in a world of {}", verb, tensors.size(), world));
  }
  for (const at::Tensor& tensor : tensors) {
    check_copyable(tensor, verb);
    const at::Tensor& first = tensors.front();
    bool same = tensor.scalar_type() == first.scalar_type() && tensor.dim() == first.dim();
    if (!alike && tensor.dim() == 0) same = false;
    for (std::int64_t d = alike ? 0 : 1; same && d < tensor.dim(); ++d) same = tensor.size(d) == first.size(d);
    if (same) continue;
    throw UsageError(fmt::format("{} was given tensors of shapes {} ({}) and {} ({})", verb, sizes_text(first),
                                 dtype_name(first.scalar_type()), sizes_text(tensor), dtype_name(tensor.scalar_type())),
                     alike ? "all tensors must have the same shape and dtype" : "only the first dimension may differ");
  }
}

void check_bucket(std::int64_t numel, c10::ScalarType dtype) {
  if (numel >= 0 && is_reducible(dtype)) return;
  throw UsageError(fmt::format("a bucket of {} elements of {}: buckets hold {}", numel, dtype_name(dtype), kDtypes));
}

}  // namespace lockstep::comm
