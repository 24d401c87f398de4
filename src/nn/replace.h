// SPDX-License-Identifier: Apache-2.0
// Replaces layers in a torch::nn::Sequential: single layers, and chains that do not begin with a batch norm.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/modules/container/sequential.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace lockstep::nn::detail {

using Layers = std::vector<std::shared_ptr<torch::nn::Module>>;

/// Returns the layer at `index` if it is exactly a `Layer`: a derived class may have a different forward().
template <class Layer>
const Layer* as(const Layers& layers, std::size_t index) {
  if (index >= layers.size() || typeid(*layers[index]) != typeid(Layer)) return nullptr;
  return dynamic_cast<const Layer*>(layers[index].get());
}

template <class Layer>
void put(torch::nn::SequentialImpl& into, std::size_t index, std::shared_ptr<Layer> layer) {
  into.replace_module(into.named_children()[index].key(), layer);
  *(into.begin() + static_cast<std::ptrdiff_t>(index)) = torch::nn::AnyModule(std::move(layer));
}

/// Replaces `count` layers, starting at `first`, with empty layers.
void put_nothing(torch::nn::SequentialImpl& into, std::size_t first, std::size_t count);

/// A replacement, and the number of layers that it replaces.
struct Replaced {
  std::size_t length = 1;
  std::string what;
};

/// Replaces Linear + ReLU (optionally with Dropout between or after them), or a LayerNorm, Dropout or ReLU (not in
/// place), with Lockstep's layers.
[[nodiscard]] std::optional<Replaced> replace_layer(torch::nn::SequentialImpl& sequential, std::size_t index,
                                                    const Layers& layers);

/// Returns the name of a layer that would be replaced inside a Sequential even without the layers after it; else "".
[[nodiscard]] std::string replaceable_alone(const torch::nn::Module& layer);

}  // namespace lockstep::nn::detail
