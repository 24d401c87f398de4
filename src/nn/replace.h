// SPDX-License-Identifier: Apache-2.0
// Putting one layer of a torch::nn::Sequential in another's place, and the chains that begin with no batch norm.
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

/// The layer at `index` where it is a `Layer` and no class derived from it, whose forward may be another.
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

/// The layers after the first of a chain: nothing is left for them to do.
void put_nothing(torch::nn::SequentialImpl& into, std::size_t first, std::size_t count);

/// What was replaced at an index, and how many layers it takes the place of.
struct Replaced {
  std::size_t length = 1;
  std::string what;
};

/// Linear + ReLU with Dropout between or after them, or LayerNorm, Dropout or ReLU (not in place) alone, by ours.
[[nodiscard]] std::optional<Replaced> replace_layer(torch::nn::SequentialImpl& sequential, std::size_t index,
                                                    const Layers& layers);

/// Returns the name of a layer that would be replaced inside a Sequential, whatever follows it; otherwise empty.
[[nodiscard]] std::string replaceable_alone(const torch::nn::Module& layer);

}  // namespace lockstep::nn::detail
