// SPDX-License-Identifier: Apache-2.0
// What a caller may ask of a group: every refusal names the values. The same for all backends, before anything is sent.
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

/// Returns how many partial sums a rank brings. Throws: UsageError where the tensor has another number of rows.
[[nodiscard]] int check_rows(const at::Tensor& tensor, const ReduceOptions& options, Place place, const char* verb);

/// Throws: UsageError for a tensor whose bytes cannot be carried.
void check_copyable(const at::Tensor& tensor, const char* verb);

/// Throws: UsageError where `other` does not have the dtype of `tensor`, or not `numel` elements.
void check_partner(const at::Tensor& tensor, const at::Tensor& other, std::int64_t numel, const char* verb);

/// Throws: UsageError where there is no such rank.
void check_root(int root, int world, const char* verb);

/// Throws: UsageError where `peer` is not another rank.
void check_peer(int peer, Place place, const char* verb);

/// Throws: UsageError where the first dimension cannot be divided among the ranks.
void check_divisible(const at::Tensor& tensor, int world, const char* verb);

/// Throws: UsageError unless there is one tensor per rank, alike but for the first dimension, or alike altogether.
void check_list(const std::vector<at::Tensor>& tensors, int world, bool alike, const char* verb);

/// Throws: UsageError for a negative size or a dtype that buckets do not hold.
void check_bucket(std::int64_t numel, c10::ScalarType dtype);

}  // namespace lockstep::comm
