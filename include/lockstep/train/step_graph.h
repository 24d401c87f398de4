// SPDX-License-Identifier: Apache-2.0
// StepGraph: forward, loss and backward of a step, recorded once and then started by one call. A GPU that computes
//            small steps otherwise waits for the host to launch each kernel.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Runs training steps as a CUDA graph. The first steps are computed normally; then one is recorded, and later steps
/// replay it. The update of the weights stays outside: the host keeps the learning rate, clipping and the optimizer's
/// counts.
///
/// 1. Before each run() the gradients are undefined (zero_grad()); after it they are those of the batch, always in the
///    same memory.
/// 2. `compute` runs on the host only in the first steps and at the recording. Other data that it reads must stay in
///    the same memory, and its decisions are made once.
/// 3. A batch of another shape or with `extra` is computed normally, and so is every batch in a build without CUDA; see
///    fallback(). A recording that fails ends the run, since libtorch does not get back what the recording took.
/// 4. A DistributedDataParallel keeps nodes of autograd: make it, too, while tensor::make_device_graph()->enter()
/// lives.
///
/// It belongs to the training thread. Lifetime: the parameters' and buffers' memory stays where it is.
/// Source:  PyTorch's torch.cuda.CUDAGraph, "whole network capture".
/// Example: StepGraph steps(named_parameters_of(net), [&](const Batch& batch) {
///            at::Tensor loss = criterion(net->forward(batch.data), batch.target);
///            loss.backward();
///            return loss.detach();
///          });
class StepGraph {
 public:
  /// Runs forward, loss and backward; returns the loss without its autograd graph.
  using Compute = std::function<at::Tensor(const Batch&)>;

  /// Steps that are computed normally before one is recorded: libraries choose algorithms and allocate in them.
  static constexpr int kWarmUp = 3;

  /// `graph` is null where the build has none; every step is then computed normally.
  StepGraph(NamedTensors parameters, Compute compute,
            std::unique_ptr<tensor::DeviceGraph> graph = tensor::make_device_graph());

  /// Runs one step on `batch`, whose tensors are on the device; random numbers come from `seed`.
  /// Returns: the loss, in its own memory. Blocks: only at the recording.
  /// Throws: UsageError with the reason where the step cannot be recorded; what `compute` throws.
  at::Tensor run(const Batch& batch, std::uint64_t seed);

  /// Returns true where steps replay a recording.
  [[nodiscard]] bool recorded() const noexcept { return recorded_; }
  /// Returns why they do not, once that is known; else empty.
  [[nodiscard]] const std::string& fallback() const noexcept { return fallback_; }

 private:
  [[nodiscard]] bool fits(const Batch& batch) const;
  void record(const Batch& batch, std::uint64_t seed);
  void drop_gradients();
  at::Tensor replay(const Batch& batch, std::uint64_t seed);

  NamedTensors parameters_;
  Compute compute_;
  std::unique_ptr<tensor::DeviceGraph> graph_;
  int steps_ = 0;
  bool recorded_ = false;
  std::string fallback_;
  Batch batch_;                        ///< the tensors that the recording reads
  at::Tensor loss_;                    ///< the loss that it writes
  std::vector<at::Tensor> gradients_;  ///< by parameter; undefined where a parameter gets none
};

}  // namespace lockstep

#pragma GCC visibility pop
