// SPDX-License-Identifier: Apache-2.0
// ProcessGroup: the collectives of a job, whatever carries the bytes. Backends stay in src/comm.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/work.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// How values are combined, in tree order: the same bits on every rank, in every run, on every backend. The bitwise
/// ones are for integers and bool; on bool a sum or a maximum is "any", a product or a minimum is "all".
enum class ReduceOp : std::uint8_t { kSum, kMean, kMin, kMax, kProduct, kBitAnd, kBitOr, kBitXor };

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// Not 0: combines over so many replicas, several of which may live on one rank (replicas.h). The tensor's first
  /// dimension then holds this rank's partial sums, one row for each of its whole subtrees; the result is the first row
  /// on every rank, and what the other rows hold afterwards is not defined.
  int replicas = 0;
  /// false: any order of additions that is fast, so that bits may depend on the world size. A rank then has one row,
  /// the sum of its replicas.
  bool exact = true;
  /// Called once the result is there, in the thread that combined it and before the Work is done: for what reads the
  /// result while it is in the caches. Calls no collective; what it throws fails the group. Only of all_reduce() of
  /// memory that is combined where it lies: dense and on the CPU.
  std::function<void()> then = nullptr;
};

/// The elements begin, ..., end - 1.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// `rank`'s part of `numel` elements: parts of ceil(numel / world), the last ones shorter or empty. What reduce_scatter
/// leaves on a rank and all_gather_into puts together.
[[nodiscard]] ElementRange shard_of(std::int64_t numel, int world, int rank);

/// The ranks of a job, or some of them, talking. Every rank calls the same collectives in the same order with the same
/// shapes and dtypes, or gets an error in that very call that names both sides. They run in that order on one
/// communication thread, or in the thread that waits at once.
///
/// A tensor belongs to the group until its Work is done. Any shape and strides (strided and device tensors go through a
/// copy); zero elements are fine. Reductions take float32, bfloat16, float16, float64, uint8, int8, int16, int32, int64
/// and bool; everything else carries those too. float16 and bfloat16 are combined in float32 with one final rounding; a
/// mean divides last. After an error the group is of no use: everything fails with that error.
///
/// Every function is collective and does not block, unless it says otherwise. All throw UsageError for a dtype, a shape
/// or a root that cannot be.
/// Thread-safe: yes, but the order of calls must be the same on every rank, so call from one thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  /// In this group, from 0.
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  /// "local", "shm", "gloo" or "shm+gloo".
  [[nodiscard]] virtual std::string backend_name() const = 0;

  /// Combines `tensor` over all ranks, in place.
  ///
  /// Cost:    `shm`: each byte is read once and written once per rank, without a copy when `tensor` lies in a bucket of
  ///          allocate_bucket() on every rank. `gloo`: 2 (W-1)/W of the bytes sent.
  /// Throws:  UsageError for a mean of integers, or another number of rows than this rank has partial sums.
  /// Example: group.all_reduce(gradient, {.op = ReduceOp::kMean}).wait();
  virtual Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options) = 0;
  Work all_reduce(const at::Tensor& tensor) { return all_reduce(tensor, ReduceOptions{}); }

  /// Combines `tensor` over all ranks into that of `root`; the others' stay as they are.
  virtual Work reduce(const at::Tensor& tensor, int root, const ReduceOptions& options) = 0;
  Work reduce(const at::Tensor& tensor, int root) { return reduce(tensor, root, ReduceOptions{}); }

  /// Combines `input` over all ranks; `output` becomes this rank's part of it, shard_of(input's elements).
  ///
  /// Shapes:  input as of all_reduce (with replicas: rows); output has as many elements as this rank's part, and may be
  ///          that part of input's first row itself.
  /// Cost:    `shm`: each byte is read once. `gloo`: (W-1)/W of the bytes sent.
  /// Throws:  UsageError naming the number of elements that `output` needs.
  virtual Work reduce_scatter(const at::Tensor& input, const at::Tensor& output, const ReduceOptions& options) = 0;
  Work reduce_scatter(const at::Tensor& input, const at::Tensor& output) {
    return reduce_scatter(input, output, ReduceOptions{});
  }

  /// Overwrites `tensor` on every rank with that of `root`.
  virtual Work broadcast(const at::Tensor& tensor, int root) = 0;

  /// Gathers `input` of every rank: out[r] is rank r's. `out` is made anew at the call, as views of one tensor; its
  /// contents come with the Work.
  ///
  /// Shapes: the same on every rank.
  virtual Work all_gather(const at::Tensor& input, std::vector<at::Tensor>& out) = 0;

  /// Puts the parts of all ranks together: the inverse of reduce_scatter.
  ///
  /// Shapes: output the same on every rank; input has shard_of(output's elements), and may be that part of output
  ///         itself.
  virtual Work all_gather_into(const at::Tensor& input, const at::Tensor& output) = 0;

  /// Gathers tensors whose first dimension differs from rank to rank.
  ///
  /// Blocks: until the sizes are exchanged, and the data.
  /// Shapes: all dimensions but the first the same on every rank.
  [[nodiscard]] virtual std::vector<at::Tensor> all_gather_uneven(const at::Tensor& input) = 0;

  /// Part r of `input` goes to rank r; part r of `output` came from rank r.
  ///
  /// Shapes: both alike; the first dimension is a multiple of the world size.
  virtual Work all_to_all(const at::Tensor& input, const at::Tensor& output) = 0;

  /// inputs[r] goes to rank r; result[r] came from rank r. Only the first dimension may differ, from rank to rank too.
  ///
  /// Blocks: until the sizes are exchanged, and the data.
  [[nodiscard]] virtual std::vector<at::Tensor> all_to_all_uneven(const std::vector<at::Tensor>& inputs) = 0;

  /// Gathers `input` of every rank at `root`, as all_gather does; elsewhere `out` becomes empty.
  virtual Work gather(const at::Tensor& input, std::vector<at::Tensor>& out, int root) = 0;

  /// `output` becomes inputs[rank] of `root`; the other ranks pass no inputs.
  ///
  /// Shapes: outputs and inputs all alike.
  virtual Work scatter(const std::vector<at::Tensor>& inputs, const at::Tensor& output, int root) = 0;

  /// From this rank to `to`, whose recv() of the same shape and dtype takes it. Messages between two ranks arrive in
  /// order; those of different pairs do not wait for each other, nor for collectives. Small ones are done before they
  /// are received.
  ///
  /// Collective: no - between the two.
  virtual Work send(const at::Tensor& tensor, int to) = 0;
  /// Collective: no - between the two.
  virtual Work recv(const at::Tensor& tensor, int from) = 0;

  /// Done when every rank has come here.
  virtual Work barrier() = 0;

  /// A group of those ranks that gave the same `color`, ordered by `key`, then by rank; none where `color` is negative.
  /// It has a communication thread and an order of its own, so that collectives of different groups overlap. When this
  /// group is aborted, so is it.
  ///
  /// Blocks: until the members are connected.
  /// Lifetime: this group outlives it.
  /// Throws: ResourceError, TimeoutError, as init().
  [[nodiscard]] virtual std::shared_ptr<ProcessGroup> split(int color, int key) = 0;
  [[nodiscard]] std::shared_ptr<ProcessGroup> split(int color) { return split(color, 0); }

  /// A flat tensor of zeros that all_reduce reduces where it lies: in the shared segment with `shm`, else plain memory.
  /// Local: ranks need not ask in the same order.
  ///
  /// Collective: no.
  /// Cost: its bytes of shared memory, given back with the tensor's last reference.
  /// Lifetime: may outlive the group.
  /// Throws: ResourceError naming the sizes where memory is short.
  [[nodiscard]] virtual at::Tensor allocate_bucket(std::int64_t numel, at::ScalarType dtype) = 0;

  /// Makes every collective of every rank fail at once, those under way too; the first reason is the one all ranks
  /// report. With `gloo` the others learn it from the store at their next failing collective.
  ///
  /// Collective: no.
  /// Thread-safe: yes.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
