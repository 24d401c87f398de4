// SPDX-License-Identifier: Apache-2.0
// ProcessGroup: the collectives of a job. The backends local, shm, tcp and nccl are in src/comm.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/work.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The operation that combines values. Exact reductions on the CPU use tree order: the result has the same bits on
/// every rank, in every run and on every host-memory backend. kBitAnd, kBitOr and kBitXor are for integers and bool. On
/// bool a sum or a maximum means "any", a product or a minimum means "all".
enum class ReduceOp : std::uint8_t {
  kSum,      ///< the sum
  kMean,     ///< the sum, divided by the number of values
  kMin,      ///< the smallest value
  kMax,      ///< the largest value
  kProduct,  ///< the product
  kBitAnd,   ///< integers: the bits that are set in all values
  kBitOr,    ///< integers: the bits that are set in any value
  kBitXor    ///< integers: the bits that are set in an odd number of values
};

/// The options of a reduction.
struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;  ///< the operation
  /// Number of replicas to combine over, several of which may be on one rank (replicas.h); 0: one value per rank. With
  /// replicas, the tensor's first dimension holds this rank's partial sums, one row for each of its whole subtrees. The
  /// result is in the first row on every rank; the other rows are undefined afterwards.
  int replicas = 0;
  /// False allows additions in any fast order: the bits may then depend on the world size, and each rank passes a
  /// single row, the sum over its replicas.
  bool exact = true;
  /// Called when the result is complete, on the thread that combined it, before the Work is done, so that it can read
  /// the result while the caches still hold it. It must not call a collective; an exception from it fails the group.
  /// Only all_reduce() accepts it, and only for dense CPU tensors.
  std::function<void()> then = nullptr;
  int bucket = -1;  ///< index of the gradient bucket, for the flight recorder; -1 if none
  int buckets = 0;  ///< number of gradient buckets
};

/// The elements begin, ..., end - 1 of a flat tensor.
struct ElementRange {
  std::int64_t begin = 0;  ///< first element
  std::int64_t end = 0;    ///< one past the last element

  /// Returns the number of elements.
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// Returns `rank`'s part of `numel` elements. Parts have ceil(numel / world) elements; the last ones are shorter or
/// empty. reduce_scatter leaves this part on a rank, and all_gather_into joins the parts.
[[nodiscard]] ElementRange shard_of(std::int64_t numel, int world, int rank);

/// The collectives of a group: all ranks of a job, or some of them. Every rank calls the same collectives in the same
/// order with the same shapes and dtypes; otherwise the Work fails with an error that names both calls. Operations run
/// in that order on one communication thread or, while the queue is idle, on the thread that calls wait().
///
/// A tensor belongs to the group until its Work is done. It may have any shape and strides, including zero elements;
/// strided tensors, and device tensors that are not sent through `nccl`, go through a copy in host memory. All
/// operations support float32, bfloat16, float16, float64, uint8, int8, int16, int32, int64 and bool. In host memory
/// float16 and bfloat16 are combined in float32 with one final rounding; a mean divides last. After an error the group
/// cannot be used: every later call fails with that error.
///
/// A function that returns a Work is collective and does not wait for other ranks; it starts the operation and returns.
/// Two cases do take time in the call: a world of one computes immediately, and a device tensor that is not sent
/// through `nccl` is first copied to the host. Other functions document whether they block. All throw UsageError for an
/// invalid dtype, shape or root.
/// Thread-safe: yes, but the order of calls must be the same on every rank, so call from one thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  /// Returns this process's rank in this group, from 0.
  [[nodiscard]] virtual int rank() const noexcept = 0;
  /// Returns the number of ranks in this group.
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  /// Returns "local", "shm", "tcp", "shm+tcp" (several hosts with several ranks) or "nccl" (GPU tensors go through
  /// NCCL).
  [[nodiscard]] virtual std::string backend_name() const = 0;

  /// Combines `tensor` over all ranks, in place.
  ///
  /// Cost:    `shm`: each byte is read once and written once per rank, without a copy if `tensor` is in a bucket from
  ///          allocate_bucket() on every rank. `tcp`: 2 (W-1)/W of the bytes are sent.
  /// Throws:  UsageError for a mean of integers, or if the number of rows of `tensor` is not this rank's number of
  ///          partial sums.
  /// Example: group.all_reduce(gradient, {.op = ReduceOp::kMean}).wait();
  virtual Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options) = 0;
  /// Sums over all ranks, in place. See the overload with options.
  Work all_reduce(const at::Tensor& tensor) { return all_reduce(tensor, ReduceOptions{}); }

  /// Combines `tensor` over all ranks into the tensor of rank `root`; the tensors of other ranks keep their values.
  virtual Work reduce(const at::Tensor& tensor, int root, const ReduceOptions& options) = 0;
  /// Sums over all ranks into `root`'s tensor. See the overload with options.
  Work reduce(const at::Tensor& tensor, int root) { return reduce(tensor, root, ReduceOptions{}); }

  /// Combines `input` over all ranks; `output` becomes this rank's part of the result, as given by shard_of().
  ///
  /// Shapes:  input as in all_reduce (with replicas it has rows); output has as many elements as this rank's part, and
  ///          may be that part of input's first row itself.
  /// Cost:    `shm`: each byte is read once. `tcp`: (W-1)/W of the bytes are sent.
  /// Throws:  UsageError naming the number of elements that `output` needs.
  virtual Work reduce_scatter(const at::Tensor& input, const at::Tensor& output, const ReduceOptions& options) = 0;
  /// Sums over all ranks, and gives each rank its part. See the overload with options.
  Work reduce_scatter(const at::Tensor& input, const at::Tensor& output) {
    return reduce_scatter(input, output, ReduceOptions{});
  }

  /// Overwrites `tensor` on every rank with the tensor of rank `root`.
  virtual Work broadcast(const at::Tensor& tensor, int root) = 0;

  /// Gathers `input` of every rank: out[r] is the input of rank r. The call fills `out` with new views of one tensor,
  /// which hold their values once the Work is done.
  ///
  /// Shapes: the same on every rank.
  virtual Work all_gather(const at::Tensor& input, std::vector<at::Tensor>& out) = 0;

  /// Joins the parts of all ranks; the inverse of reduce_scatter.
  ///
  /// Shapes: output has the same shape on every rank; input has shard_of(output's elements), and may be that part of
  ///         output itself.
  virtual Work all_gather_into(const at::Tensor& input, const at::Tensor& output) = 0;

  /// Gathers tensors whose first dimension differs from rank to rank.
  ///
  /// Blocks: until sizes and data have been exchanged.
  /// Shapes: all dimensions but the first are the same on every rank.
  [[nodiscard]] virtual std::vector<at::Tensor> all_gather_uneven(const at::Tensor& input) = 0;

  /// Sends part r of `input` to rank r; part r of `output` comes from rank r.
  ///
  /// Shapes: both tensors have the same shape; the first dimension is a multiple of the world size.
  virtual Work all_to_all(const at::Tensor& input, const at::Tensor& output) = 0;

  /// Sends inputs[r] to rank r; result[r] comes from rank r. Only the first dimension may differ, between tensors and
  /// between ranks.
  ///
  /// Blocks: until sizes and data have been exchanged.
  [[nodiscard]] virtual std::vector<at::Tensor> all_to_all_uneven(const std::vector<at::Tensor>& inputs) = 0;

  /// Gathers `input` of every rank on rank `root`, as all_gather does; on other ranks `out` becomes empty.
  virtual Work gather(const at::Tensor& input, std::vector<at::Tensor>& out, int root) = 0;

  /// Sets `output` on each rank to inputs[rank] of rank `root`; the other ranks pass no inputs.
  ///
  /// Shapes: all outputs and inputs have the same shape.
  virtual Work scatter(const std::vector<at::Tensor>& inputs, const at::Tensor& output, int root) = 0;

  /// Sends `tensor` to rank `to`, whose recv() of the same shape and dtype receives it. Messages between two ranks
  /// arrive in order. Messages between different pairs wait neither for each other nor for collectives. The Work of a
  /// small message may be done before the message is received.
  ///
  /// Collective: no; only the two ranks call it.
  virtual Work send(const at::Tensor& tensor, int to) = 0;
  /// Receives a tensor from rank `from` into `tensor`.
  /// Collective: no; only the two ranks call it.
  virtual Work recv(const at::Tensor& tensor, int from) = 0;

  /// Returns a Work that is done when every rank has called barrier().
  virtual Work barrier() = 0;

  /// Returns a group of the ranks that passed the same `color`, ordered by `key`, then by rank; null if `color` is
  /// negative. The new group has its own communication thread and its own order, so that collectives of different
  /// groups overlap. Aborting this group aborts the new one too.
  ///
  /// Blocks: until the members are connected.
  /// Lifetime: this group outlives it.
  /// Throws: ResourceError, TimeoutError, as init() does.
  [[nodiscard]] virtual std::shared_ptr<ProcessGroup> split(int color, int key) = 0;
  /// Creates a group of the ranks with the same `color`, in their current order. Collective: yes.
  [[nodiscard]] std::shared_ptr<ProcessGroup> split(int color) { return split(color, 0); }

  /// Returns a flat tensor of zeros that all_reduce reduces in place: with `shm` it is in the shared segment, else in
  /// plain memory. Ranks may call it in different orders.
  ///
  /// Collective: no.
  /// Cost: its size in shared memory, which is freed with the tensor's last reference.
  /// Lifetime: the tensor may outlive the group.
  /// Throws: ResourceError naming the sizes if there is not enough memory.
  [[nodiscard]] virtual at::Tensor allocate_bucket(std::int64_t numel, at::ScalarType dtype) = 0;

  /// Makes every collective of every rank fail at once, including those under way; all ranks report the first reason.
  /// With `tcp` the other ranks learn the reason from the store when their next collective fails.
  ///
  /// Collective: no.
  /// Thread-safe: yes.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
