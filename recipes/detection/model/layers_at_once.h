// SPDX-License-Identifier: Apache-2.0
// What each layer does by itself in a step, at once for all of a network. Where layers are many and small, a tenth of
// the launches cast one weight each, as many cast a gradient back, and some count the batches of a batch norm.
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
  /// It keeps no layer alive.
  explicit LayersAtOnce(torch::nn::Module& net);

  [[nodiscard]] bool are_of(const torch::nn::Module& net) const { return net_.lock().get() == &net; }

  /// For a forward pass in training, in which each batch norm runs once. The layers compute with copies of their
  /// weights in the type of the device's autocast, the gradients of all weights are there at the end of backward, and
  /// batch norms have counted the batch. Values, gradients and counts are those that the layers make.
  ///
  /// It does nothing where the weights are not on a GPU (processors have layers that cast while they multiply), and
  /// with several replicas, whose reduction begins before the last gradient is there.
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
    std::vector<std::pair<at::Tensor*, at::Tensor>> weights_;          ///< members of layers, and what they were
    std::vector<std::pair<nn::BatchNorm2dImpl*, at::Tensor>> counts_;  ///< with a momentum: others read their counts
  };

 private:
  std::weak_ptr<const torch::nn::Module> net_;
  std::vector<std::weak_ptr<torch::nn::Module>> layers_;
};

}  // namespace lockstep::detection
