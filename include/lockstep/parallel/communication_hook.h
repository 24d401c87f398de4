// SPDX-License-Identifier: Apache-2.0
// Communication hooks: what happens to a full bucket of gradients instead of the plain mean over all replicas.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
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

/// A sum over all replicas of the run that may still be under way.
struct ReplicaSum {
  Work work;
  at::Tensor sum;                     ///< after work; in float32 where 16-bit values had to be added on this rank
  at::ScalarType dtype = at::kFloat;  ///< of the values
  [[nodiscard]] at::Tensor value() const { return sum.to(dtype); }  ///< the result, after work
};

/// A bucket whose gradients are complete on this rank, as a hook sees it.
///
/// Lifetime: until the hook's last stage has run; a hook that keeps something keeps it by name, since buckets are
///           rebuilt.
class GradBucket {
 public:
  /// Whose gradients a bucket has.
  struct Place {
    int index = 0;
    bool is_last = false;
    int replicas = 1;   ///< of the run
    ReplicaSpan block;  ///< of this rank
    bool exact = true;
  };

  GradBucket(const Place& place, tensor::FlatLayout layout, std::vector<at::Tensor> gradients, ProcessGroup& group)
      : place_(place), layout_(std::move(layout)), gradients_(std::move(gradients)), group_(&group) {}

  /// 0 is the first to be reduced.
  [[nodiscard]] int index() const noexcept { return place_.index; }
  [[nodiscard]] bool is_last() const noexcept { return place_.is_last; }
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }
  /// Of the run: what a sum is to be divided by.
  [[nodiscard]] int divisor() const noexcept { return divisor_ == 0 ? place_.replicas : divisor_; }
  /// The replicas of this rank: one, unless DdpOptions::replicas is more than the world.
  [[nodiscard]] const ReplicaSpan& block() const noexcept { return place_.block; }

  /// The flat gradient of this rank's `local`-th replica, which a hook may overwrite. Between parameters are zeros.
  [[nodiscard]] const at::Tensor& gradient(int local = 0) const { return gradients_[static_cast<std::size_t>(local)]; }
  /// Where the hook leaves the mean: gradient(0).
  [[nodiscard]] const at::Tensor& result() const { return gradients_.front(); }
  /// Name and place in the flat tensor of each parameter; the order is no promise.
  [[nodiscard]] const std::vector<tensor::FlatSlot>& parameters() const noexcept { return layout_.slots; }
  /// The gradient of parameters()[parameter], in the parameter's own strides.
  [[nodiscard]] at::Tensor view(std::size_t parameter, int local = 0) const {
    return tensor::flat_view(gradient(local), layout_.slots[parameter]);
  }

  /// Starts the sum of `values`, one for each replica of this rank, over all replicas of the run, in tree order: the
  /// same bits on any number of ranks. 16-bit values are added in float32 with one final rounding; they are 16 bits on
  /// the wire where no rank has several replicas.
  ///
  /// Collective: yes; hooks of all ranks call the same for the same bucket.
  /// Shapes:     any; alike on every replica; on the CPU.
  [[nodiscard]] ReplicaSum all_reduce(const std::vector<at::Tensor>& values) const;

  /// No other bucket is to come.
  void set_last() noexcept { place_.is_last = true; }
  /// What divisor() says instead, not 0: fewer where ranks have run out of data (Join).
  void set_divisor(int divisor) noexcept { divisor_ = divisor; }

 private:
  Place place_;
  tensor::FlatLayout layout_;
  std::vector<at::Tensor> gradients_;
  ProcessGroup* group_;
  int divisor_ = 0;
};

/// What a hook has started, and how it goes on once that is done.
struct HookStage {
  std::vector<Work> works = {};
  std::function<HookStage()> then = nullptr;  ///< the next stage; none: the result is in the bucket
};

/// Called for each bucket in bucket order, the same on every rank, while backward runs on; gradient mode is off. Later
/// stages run after backward, each for all buckets in turn, so that the stages of several buckets overlap. Sparse
/// gradients do not come to hooks.
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

/// Rounds each replica's gradient to bfloat16, divides it by the number of replicas, sums, and widens again. Half the
/// bytes on the wire where every rank has one replica. The same bits on any number of ranks.
/// Source: PyTorch's bf16_compress_hook.
[[nodiscard]] CommunicationHook bf16_compress();
/// The same with float16, whose range is small: gradients above 65,504 become infinite.
[[nodiscard]] CommunicationHook fp16_compress();

}  // namespace hooks
}  // namespace lockstep

#pragma GCC visibility pop
