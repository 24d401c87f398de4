// SPDX-License-Identifier: Apache-2.0
// Does some work of all layers of a network at once, instead of once a layer. In a step of many small layers, a tenth
// of the launches each cast one weight, as many cast a gradient back, and some count the batches of a batch norm.
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
  /// Keeps no layer alive.
  explicit LayersAtOnce(torch::nn::Module& net);

  [[nodiscard]] bool are_of(const torch::nn::Module& net) const { return net_.lock().get() == &net; }

  /// For a forward pass in training in which each batch norm runs once. The layers compute with copies of their weights
  /// in the device's autocast type, backward yields the gradients of all weights at its end, and the batch norms have
  /// counted the batch. Values, gradients and counts are the same as without it.
  ///
  /// It does nothing if the weights are not on a GPU (processors have layers that cast while they multiply), or if
  /// there are several replicas, whose reduction begins before the last gradient is there.
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
    std::vector<std::pair<at::Tensor*, at::Tensor>> weights_;          ///< members of layers, and their original values
    std::vector<std::pair<nn::BatchNorm2dImpl*, at::Tensor>> counts_;  ///< with a momentum: others read their counts
  };

 private:
  std::weak_ptr<const torch::nn::Module> net_;
  std::vector<std::weak_ptr<torch::nn::Module>> layers_;
};

}  // namespace lockstep::detection
