// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of a group's functions before any data are sent, in the same way for all backends. Every error
// names the values.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::comm {

/// A rank and its group's size.
struct Place {
  int rank = 0;
  int world = 1;
};

/// Throws: UsageError for a tensor that cannot be reduced with `op`.
void check_reducible(const at::Tensor& tensor, ReduceOp op, const char* verb);

/// Throws: UsageError for a tensor that a result cannot be written into; an undefined one passes.
void check_written(const at::Tensor& tensor, const char* verb);

/// Returns the number of a rank's partial sums. Throws: UsageError if the tensor does not have that number of rows.
[[nodiscard]] int check_rows(const at::Tensor& tensor, const ReduceOptions& options, Place place, const char* verb);

/// Throws: UsageError for a tensor whose bytes cannot be carried.
void check_copyable(const at::Tensor& tensor, const char* verb);

/// Throws: UsageError if `other` does not have the dtype of `tensor` and `numel` elements.
void check_partner(const at::Tensor& tensor, const at::Tensor& other, std::int64_t numel, const char* verb);

/// Throws: UsageError if `root` is not a rank.
void check_root(int root, int world, const char* verb);

/// Throws: UsageError if `peer` is not another rank.
void check_peer(int peer, Place place, const char* verb);

/// Throws: UsageError if the first dimension cannot be divided among the ranks.
void check_divisible(const at::Tensor& tensor, int world, const char* verb);

/// Throws: UsageError unless there is one tensor per rank, all of the same dtype and shape; if `alike` is false, the
/// first dimension may differ.
void check_list(const std::vector<at::Tensor>& tensors, int world, bool alike, const char* verb);

/// Throws: UsageError for a negative size or a dtype that buckets do not support.
void check_bucket(std::int64_t numel, c10::ScalarType dtype);

}  // namespace lockstep::comm
