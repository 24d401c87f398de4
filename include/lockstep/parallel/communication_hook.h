// SPDX-License-Identifier: Apache-2.0
// Communication hooks: a hook reduces a full bucket of gradients in place of the plain mean over all replicas.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/tensor/flat_layout.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A sum over all replicas of the run, which may still be under way.
struct ReplicaSum {
  Work work;                          ///< the operation; wait for it before reading the sum
  at::Tensor sum;                     ///< the sum, valid after work; float32 if 16-bit values were added on this rank
  at::ScalarType dtype = at::kFloat;  ///< dtype of the summed values
  [[nodiscard]] at::Tensor value() const { return sum.to(dtype); }  ///< Returns the result; valid after work.
};

/// A bucket whose gradients are complete on this rank, for a hook.
///
/// Lifetime: until the hook's last stage has run. Buckets are rebuilt, so a hook that keeps state keys it by parameter
///           name.
class GradBucket {
 public:
  /// The position of a bucket and its replicas.
  struct Place {
    int index = 0;         ///< index of the bucket; 0 is reduced first
    bool is_last = false;  ///< no other bucket follows in this backward
    int replicas = 1;      ///< number of replicas of the run
    ReplicaSpan block;     ///< the replicas of this rank
    bool exact = true;     ///< DdpOptions::exact
  };

  GradBucket(const Place& place, tensor::FlatLayout layout, std::vector<at::Tensor> gradients, ProcessGroup& group)
      : place_(place), layout_(std::move(layout)), gradients_(std::move(gradients)), group_(&group) {}

  /// Returns the bucket's position; 0 is reduced first.
  [[nodiscard]] int index() const noexcept { return place_.index; }
  /// Returns true for the last bucket of a backward.
  [[nodiscard]] bool is_last() const noexcept { return place_.is_last; }
  /// Returns the group whose ranks share the gradients.
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }
  /// Returns the number that a sum is divided by: the run's replicas, unless set_divisor() changed it.
  [[nodiscard]] int divisor() const noexcept { return divisor_ == 0 ? place_.replicas : divisor_; }
  /// Returns the replicas of this rank: one, unless DdpOptions::replicas is more than the world size.
  [[nodiscard]] const ReplicaSpan& block() const noexcept { return place_.block; }

  /// Returns the flat gradient of this rank's `local`-th replica, which a hook may overwrite. It has zeros between
  /// parameters.
  [[nodiscard]] const at::Tensor& gradient(int local = 0) const { return gradients_[static_cast<std::size_t>(local)]; }
  /// Returns the tensor in which the hook leaves the mean: gradient(0).
  [[nodiscard]] const at::Tensor& result() const { return gradients_.front(); }
  /// Returns each parameter's name and position in the flat tensor, in no particular order.
  [[nodiscard]] const std::vector<tensor::FlatSlot>& parameters() const noexcept { return layout_.slots; }
  /// Returns the gradient of parameters()[parameter], in the parameter's own strides.
  [[nodiscard]] at::Tensor view(std::size_t parameter, int local = 0) const {
    return tensor::flat_view(gradient(local), layout_.slots[parameter]);
  }

  /// Starts the sum of `values`, one for each replica of this rank, over all replicas of the run, in tree order, so
  /// that the result has the same bits on any number of ranks. 16-bit values are added in float32 with one final
  /// rounding; they are sent as 16 bits if no rank has several replicas.
  ///
  /// Collective: yes; the hooks of all ranks make the same calls for the same bucket.
  /// Shapes: the same on every replica; CPU tensors.
  [[nodiscard]] ReplicaSum all_reduce(const std::vector<at::Tensor>& values) const;

  /// Marks this bucket as the last one.
  void set_last() noexcept { place_.is_last = true; }
  /// Sets the value that divisor() returns, which must not be 0. It is smaller if ranks have run out of data (Join).
  void set_divisor(int divisor) noexcept { divisor_ = divisor; }

 private:
  Place place_;
  tensor::FlatLayout layout_;
  std::vector<at::Tensor> gradients_;
  ProcessGroup* group_;
  int divisor_ = 0;
};

/// The operations that a stage of a hook has started, and the next stage.
struct HookStage {
  std::vector<Work> works = {};  ///< the operations that were started; the next stage runs after all of them
  std::function<HookStage()> then = nullptr;  ///< the next stage; if empty, the result is in the bucket
};

/// Runs for each bucket, in the same order on every rank, while backward continues; gradient mode is off. Each later
/// stage runs after backward for all buckets, so that the stages of several buckets overlap. Hooks do not get sparse
/// gradients.
///
/// Example: [](lockstep::GradBucket& bucket) -> lockstep::HookStage {
///            auto sum = bucket.all_reduce({bucket.gradient()});
///            return {{sum.work}, [&bucket, sum] {
///                      bucket.result().copy_(sum.value()).div_(bucket.divisor());
///                      return lockstep::HookStage{};
///                    }};
///          }
using CommunicationHook = std::function<HookStage(GradBucket& bucket)>;

namespace hooks {

/// Rounds each replica's gradient to bfloat16, divides it by the number of replicas, sums the results and widens the
/// sum. It sends half the bytes if every rank has one replica. The result has the same bits on any number of ranks.
/// Source: PyTorch's bf16_compress_hook.
[[nodiscard]] CommunicationHook bf16_compress();
/// Like bf16_compress(), but with float16, whose range is small: gradients above 65,504 become infinite.
[[nodiscard]] CommunicationHook fp16_compress();

}  // namespace hooks
}  // namespace lockstep

#pragma GCC visibility pop
