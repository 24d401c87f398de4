// SPDX-License-Identifier: Apache-2.0
// Does some work for all layers of a network at once instead of layer by layer. In a step with many small layers, a
// tenth of the kernel launches cast a weight, another tenth cast a gradient back, and some count batches for a norm.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/nn/batch_norm.h"

namespace lockstep::detection {

/// The linear layers, convolutions and batch norms of a network.
///
/// Thread-safe: no.
class LayersAtOnce {
 public:
  LayersAtOnce() = default;
  /// The object does not keep the layers alive.
  explicit LayersAtOnce(torch::nn::Module& net);

  [[nodiscard]] bool are_of(const torch::nn::Module& net) const { return net_.lock().get() == &net; }

  /// A training forward pass in which each batch norm runs once. The layers use copies of their weights in the device's
  /// autocast type, backward computes the gradients of all weights at the end, and all batch norms count the batch at
  /// once. Values, gradients and counts are the same as without a Scope.
  ///
  /// Does nothing if the weights are not on a GPU (on a CPU the layers cast while they multiply), or if there are
  /// several replicas, whose all-reduce begins before the last gradient is ready.
  class Scope {
   public:
    explicit Scope(const LayersAtOnce& layers);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    void add(torch::nn::Module& layer);
    void add_weight(at::Tensor& member);
    [[nodiscard]] std::vector<at::Tensor> cast_weights();
    void count_batches() const;

    std::vector<std::shared_ptr<torch::nn::Module>> alive_;
    std::vector<std::pair<at::Tensor*, at::Tensor>> weights_;  ///< member tensors of layers, and their original values
    std::vector<std::pair<nn::BatchNorm2dImpl*, at::Tensor>> counts_;  ///< norms with momentum; others need their count
  };

 private:
  std::weak_ptr<const torch::nn::Module> net_;
  std::vector<std::weak_ptr<torch::nn::Module>> layers_;
};

}  // namespace lockstep::detection
