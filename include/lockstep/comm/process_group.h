// SPDX-License-Identifier: Apache-2.0
// ProcessGroup: the collectives of a job, whatever carries the bytes. Backends stay in src/comm.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/work.h"

namespace lockstep {

/// How all_reduce combines. Sums and means go in tree order: the same bits on every rank, in every run, on every
/// backend.
enum class ReduceOp { kSum, kMean, kMin, kMax };

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// Not 0: combines over so many replicas, several of which may live on one rank (replicas.h). The tensor's first
  /// dimension then holds this rank's partial sums, one row for each of its whole subtrees; the result is the first row
  /// on every rank, and what the other rows hold afterwards is not defined.
  int replicas = 0;
  /// false: any order of additions that is fast, so that bits may depend on the world size. A rank then has one row,
  /// the sum of its replicas.
  bool exact = true;
};

/// The ranks of a job, talking. Every rank calls the same collectives in the same order with the same shapes and
/// dtypes. They run in that order on one communication thread, or in the thread that waits at once.
///
/// A tensor belongs to the group until its Work is done. Any shape and strides (strided and device tensors go through a
/// copy); zero elements are fine. After an error the group is of no use: everything fails with that error.
/// Thread-safe: yes, but the order of calls must be the same on every rank, so call from one thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  /// "local", "shm" or "gloo".
  [[nodiscard]] virtual std::string backend_name() const = 0;

  /// Combines `tensor` over all ranks, in place. float16 and bfloat16 are summed in float32 with one final rounding; a
  /// mean divides last.
  ///
  /// Collective: yes.
  /// Blocks: no.
  /// Cost: `shm`: each byte is read once and written once per rank, without a copy when `tensor` lies in a bucket of
  ///       allocate_bucket() on every rank. `gloo`: 2 (W-1)/W of the bytes sent.
  /// Throws: UsageError for a dtype other than float32, bfloat16, float16, float64, int32, int64; a mean of integers;
  /// or another number of rows than this rank has partial sums. Example: group.all_reduce(gradient, {.op =
  /// ReduceOp::kMean}).wait();
  virtual Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options) = 0;
  Work all_reduce(const at::Tensor& tensor) { return all_reduce(tensor, ReduceOptions{}); }

  /// Overwrites `tensor` on every rank with that of `root`.
  ///
  /// Collective: yes.
  /// Blocks: no.
  /// Throws: UsageError for a dtype that is neither one of all_reduce's nor uint8, int8, int16 or bool; or no such
  /// root.
  virtual Work broadcast(const at::Tensor& tensor, int root) = 0;

  /// Gathers `input` of every rank: out[r] is rank r's. `out` is made anew at the call; its contents come with the
  /// Work.
  ///
  /// Collective: yes.
  /// Blocks: no.
  /// Shapes: the same on every rank.
  /// Throws: as broadcast.
  virtual Work all_gather(const at::Tensor& input, std::vector<at::Tensor>& out) = 0;

  /// Done when every rank has come here.
  ///
  /// Collective: yes.
  /// Blocks: no.
  virtual Work barrier() = 0;

  /// A flat tensor of zeros that all_reduce reduces where it lies: in the shared segment with `shm`, else plain memory.
  /// Local: ranks need not ask in the same order.
  ///
  /// Cost: its bytes of shared memory, given back with the tensor's last reference.
  /// Lifetime: may outlive the group.
  /// Throws: ResourceError naming the sizes where memory is short.
  [[nodiscard]] virtual at::Tensor allocate_bucket(std::int64_t numel, at::ScalarType dtype) = 0;

  /// Makes every collective of every rank fail at once, those under way too; the first reason is the one all ranks
  /// report. With `gloo` the others learn it from the store at their next failing collective.
  ///
  /// Thread-safe: yes.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace lockstep
