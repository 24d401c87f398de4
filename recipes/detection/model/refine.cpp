// SPDX-License-Identifier: Apache-2.0
#include "detection/model/refine.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/meshgrid.h>
#include <ATen/ops/stack.h>

#include <string>

namespace lockstep::detection {

void put(const Refined& refined, const Denoising* denoising, std::int64_t queries, Outputs& outputs) {
  const std::int64_t slots = denoising == nullptr ? 0 : denoising->labels.size(1);
  // In every tensor, the query axis is the second to last.
  const auto put_parts = [&](const std::string& name, const at::Tensor& all) {
    // Takes both parts in one operation: the gradient of a single part would be a full tensor, mostly zeros.
    const std::vector<at::Tensor> parts = all.split_with_sizes({slots, queries}, -2);
    outputs[name] = parts[1];
    if (denoising != nullptr) outputs["dn_" + name] = parts[0];
  };
  put_parts("logits", at::stack(refined.logits));
  put_parts("boxes", at::stack(refined.boxes));
  put_parts("corners", at::stack(refined.corners));
  put_parts("refs", refined.refs);
  if (refined.pre_logits.defined()) {
    put_parts("pre_logits", refined.pre_logits.unsqueeze(0));
    put_parts("pre_boxes", refined.pre_boxes.unsqueeze(0));
  }
  if (denoising != nullptr) {
    outputs["dn_index"] = denoising->index;
    outputs["dn_weight"] = denoising->weight;
  }
}

at::Tensor rows(const at::Tensor& from, const at::Tensor& index) {
  return from.gather(1, index.unsqueeze(-1).expand({index.size(0), index.size(1), from.size(2)}));
}

at::Tensor boxes_of_cells(std::int64_t height, std::int64_t width, double size) {
  const auto middles = [](std::int64_t count) {
    return (at::arange(count, at::kFloat) + 0.5) / static_cast<double>(count);
  };
  const auto grid = at::meshgrid({middles(height), middles(width)}, "ij");
  const at::Tensor side = at::full({height, width}, size);
  return at::stack({grid[1], grid[0], side, side}, -1).view({height * width, 4});
}

Memory flattened(const std::vector<at::Tensor>& scales) {
  Memory memory;
  std::vector<at::Tensor> tokens;
  for (const at::Tensor& scale : scales) {
    tokens.push_back(scale.flatten(2).transpose(1, 2));
    memory.sizes.push_back({scale.size(2), scale.size(3)});
  }
  memory.tokens = at_least_float(at::cat(tokens, 1));
  return memory;
}

}  // namespace lockstep::detection
