// SPDX-License-Identifier: Apache-2.0
#include "detection/model/deformable.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/grid_sampler.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "detection/model/deformable_kernel.h"
#include "lockstep/nn/plain_operators.h"
#include "lockstep/tensor/threads.h"

namespace lockstep::detection {
namespace {

std::vector<ScaleRows> rows_of(at::IntArrayRef flat) {
  std::vector<ScaleRows> rows;
  std::int64_t first = 0;
  for (std::size_t i = 0; i + 2 < flat.size(); i += 3) {
    rows.push_back({.height = flat[i], .width = flat[i + 1], .first = first, .points = flat[i + 2]});
    first += flat[i] * flat[i + 1];
  }
  return rows;
}

SampleShape shape_of(const std::vector<ScaleRows>& scales, const at::Tensor& values, const at::Tensor& shares) {
  return {.scales = scales.data(),
          .scale_count = static_cast<std::int64_t>(scales.size()),
          .queries = shares.size(1),
          .heads = shares.size(2),
          .depth = values.size(2) / shares.size(2),
          .points = shares.size(3)};
}

/// The first element of image `index` in a contiguous batch.
float* image(const at::Tensor& batch, std::int64_t index) {
  return batch.data_ptr<float>() + index * (batch.numel() / batch.size(0));
}

class Sample : public torch::autograd::Function<Sample> {
 public:
  /// `flat`: height, width and number of points of each scale.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& values,
                            const at::Tensor& places, const at::Tensor& shares, const std::vector<std::int64_t>& flat) {
    context->save_for_backward({values, places, shares});
    context->saved_data["scales"] = flat;
    const std::vector<ScaleRows> scales = rows_of(flat);
    const SampleShape shape = shape_of(scales, values, shares);
    at::Tensor out = at::empty({values.size(0), shape.queries, values.size(2)}, values.options());
    tensor::parallel_for(0, values.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        sample_image(shape, {image(values, i), image(places, i), image(shares, i)}, image(out, i));
      }
    });
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& values = saved[0];
    const at::Tensor& places = saved[1];
    const at::Tensor& shares = saved[2];
    const std::vector<ScaleRows> scales = rows_of(context->saved_data["scales"].toIntVector());
    const SampleShape shape = shape_of(scales, values, shares);
    const at::Tensor grad = gradients[0].contiguous();
    at::Tensor to_values = at::empty_like(values);
    at::Tensor to_places = at::empty_like(places);
    at::Tensor to_shares = at::empty_like(shares);
    tensor::parallel_for(0, values.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        sample_image_backward(
            shape, {image(values, i), image(places, i), image(shares, i)}, image(grad, i),
            {.values = image(to_values, i), .places = image(to_places, i), .shares = image(to_shares, i)});
      }
    });
    return {to_values, to_places, to_shares, at::Tensor()};
  }
};

}  // namespace

at::Tensor sample_points(const at::Tensor& values, const at::Tensor& places, const at::Tensor& shares,
                         const ScaleSizes& sizes, const std::array<std::int64_t, 3>& points) {
  const bool fits = values.size(2) / shares.size(2) % 16 == 0 && values.scalar_type() != at::kDouble;
  if (!values.is_cpu() || !fits || nn::uses_plain_operators())
    return sample_by_grid(values, places, shares, sizes, points);
  std::vector<std::int64_t> flat;
  for (std::size_t i = 0; i < sizes.size(); ++i) flat.insert(flat.end(), {sizes[i][0], sizes[i][1], points[i]});
  const auto plain = [](const at::Tensor& tensor) { return tensor.to(at::kFloat).contiguous(); };
  return Sample::apply(plain(values), plain(places), plain(shares), flat).to(values.scalar_type());
}

at::Tensor sample_by_grid(const at::Tensor& values, const at::Tensor& places, const at::Tensor& shares,
                          const ScaleSizes& sizes, const std::array<std::int64_t, 3>& points) {
  const std::int64_t batch = values.size(0);
  const std::int64_t heads = shares.size(2);
  const std::int64_t queries = shares.size(1);
  std::vector<std::int64_t> rows;
  for (const auto& [height, width] : sizes) rows.push_back(height * width);
  const std::vector<at::Tensor> maps = values.split_with_sizes(rows, 1);
  const at::Tensor grid = (places * 2 - 1).transpose(1, 2).flatten(0, 1).to(values.scalar_type());
  const std::vector<at::Tensor> grids = grid.split_with_sizes({points.data(), sizes.size()}, 2);
  std::vector<at::Tensor> seen;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [height, width] = sizes[i];
    const at::Tensor map = maps[i].transpose(1, 2).reshape({batch * heads, -1, height, width});
    seen.push_back(at::grid_sampler(map, grids[i], 0, 0, /*align_corners=*/false));
  }
  const at::Tensor weights = shares.transpose(1, 2).flatten(0, 1).unsqueeze(1);
  return (at::cat(seen, -1) * weights).sum(-1).view({batch, -1, queries}).transpose(1, 2).contiguous();
}

DeformableAttention::DeformableAttention(const ModelOptions& options)
    : heads_(options.heads),
      points_(options.points),
      count_(std::accumulate(points_.begin(), points_.end(), std::int64_t{0})),
      sampling_offsets_(register_module("sampling_offsets", nn::Linear(options.hidden, heads_ * count_ * 2))),
      attention_weights_(register_module("attention_weights", nn::Linear(options.hidden, heads_ * count_))) {
  std::vector<at::Tensor> scale;
  for (const std::int64_t points : points_) {
    if (points > 0) scale.push_back(at::full({points, 1}, 0.5 / static_cast<double>(points)));
  }
  offset_scale_ = register_buffer("offset_scale", at::cat(scale, 0));
  reset_offsets();
}

/// Initially, each head looks in its own direction, and each point of a scale is farther away than the one before.
void DeformableAttention::reset_offsets() {
  const at::Tensor angle = at::arange(heads_, at::kDouble) * (2 * std::numbers::pi / static_cast<double>(heads_));
  const at::Tensor direction = at::stack({angle.cos(), angle.sin()}, 1);
  const at::Tensor unit = direction / std::get<0>(direction.abs().max(1, /*keepdim=*/true));
  std::vector<at::Tensor> far;
  for (const std::int64_t points : points_) far.push_back(at::arange(1, points + 1, at::kDouble));
  const at::Tensor offsets = unit.unsqueeze(1) * at::cat(far).view({1, -1, 1});
  torch::nn::init::zeros_(sampling_offsets_->weight);
  torch::nn::init::zeros_(attention_weights_->weight);
  torch::nn::init::zeros_(attention_weights_->bias);
  at::NoGradGuard guard;
  sampling_offsets_->bias.copy_(offsets.flatten());
}

at::Tensor DeformableAttention::forward(const at::Tensor& queries, const at::Tensor& boxes, const at::Tensor& memory,
                                        const ScaleSizes& sizes) {
  const std::int64_t batch = queries.size(0);
  const std::int64_t count = queries.size(1);
  const at::Tensor offsets = sampling_offsets_->forward(queries).to(at::kFloat).view({batch, count, heads_, count_, 2});
  const at::Tensor shares =
      at::softmax(attention_weights_->forward(queries).to(at::kFloat).view({batch, count, heads_, count_}), -1);
  const at::Tensor middle = boxes.narrow(2, 0, 2).view({batch, count, 1, 1, 2});
  const at::Tensor extent = boxes.narrow(2, 2, 2).view({batch, count, 1, 1, 2});
  return sample_points(memory, middle + offsets * (extent * offset_scale_), shares, sizes, points_);
}

}  // namespace lockstep::detection
