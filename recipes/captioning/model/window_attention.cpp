// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/window_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <limits>

#include "captioning/model/layers.h"
#include "lockstep/nn/attention.h"

namespace lockstep::captioning {
namespace {

/// The origin of each cell along a side, in the order after the shift: 0 for most cells, 1 for the first cells, which
/// the shift moves behind the last, and -1 for padding. The last window therefore mixes cells of different origins.
/// Shapes: int64 [padded].
at::Tensor origins(std::int64_t cells, std::int64_t padded, std::int64_t shift) {
  at::Tensor origin = at::zeros({padded}, at::kLong);
  origin.narrow(0, cells, padded - cells).fill_(-1);
  origin.narrow(0, 0, shift).fill_(1);
  return origin.roll(-shift, 0);
}

}  // namespace

WindowAttention::WindowAttention(const WindowOptions& options) : options_(options) {
  query_key_value_ = register_module("query_key_value", linear(options.dim, 3 * options.dim, 3));
  out_ = register_module("out", linear(options.dim, options.dim));
  if (options.window == 0) return;
  const std::int64_t side = 2 * options.window - 1;
  distance_bias_ = register_parameter("distance_bias", at::zeros({side * side, options.heads}));
  torch::nn::init::normal_(distance_bias_, 0, 0.02);
}

at::Tensor WindowAttention::forward(const at::Tensor& x, const Grid& grid, const at::Tensor& mask) {
  const at::Tensor projected = query_key_value_->forward(x);
  return out_->forward(options_.window == 0 ? over_everything(projected, mask) : in_windows(projected, cut_of(grid)));
}

at::Tensor WindowAttention::over_everything(const at::Tensor& projected, const at::Tensor& mask) {
  const std::vector<at::Tensor> parts = projected.chunk(3, 2);
  const double scale = query_scale(options_.dim, options_.heads);
  at::Tensor hidden;
  if (mask.defined()) {
    hidden = at::constant_pad_nd(mask.logical_not(), {0, 1}, false).view({mask.size(0), 1, 1, mask.size(1) + 1});
  }
  return nn::attention(heads_first(parts[0], options_.heads), heads_first(parts[1], options_.heads),
                       heads_first(parts[2], options_.heads), {.scale = scale, .bias = {}, .hidden = hidden});
}

WindowAttention::Cut WindowAttention::cut_of(const Grid& grid) const {
  const auto divided = [](std::int64_t cells, std::int64_t side) { return (cells + side - 1) / side; };
  const auto shift = [&](std::int64_t cells) {
    return options_.shifted && options_.window < cells ? options_.window / 2 : 0;
  };
  const Grid window{.height = std::min(options_.window, grid.height), .width = std::min(options_.window, grid.width)};
  return {.grid = grid,
          .window = window,
          .windows = {.height = divided(grid.height, window.height), .width = divided(grid.width, window.width)},
          .shift = {.height = shift(grid.height), .width = shift(grid.width)}};
}

at::Tensor WindowAttention::hidden_pairs(const Cut& cut) {
  const Grid padded = cut.padded();
  const at::Tensor rows = origins(cut.grid.height, padded.height, cut.shift.height);
  const at::Tensor columns = origins(cut.grid.width, padded.width, cut.shift.width);
  const auto in_windows = [&](const at::Tensor& plane) {
    return plane.reshape({cut.windows.height, cut.window.height, cut.windows.width, cut.window.width})
        .transpose(1, 2)
        .reshape({cut.count(), cut.cells()});
  };
  const at::Tensor row = in_windows(rows.unsqueeze(1).expand({padded.height, padded.width}));
  const at::Tensor column = in_windows(columns.unsqueeze(0).expand({padded.height, padded.width}));
  const auto differ = [](const at::Tensor& origin) { return origin.unsqueeze(2) != origin.unsqueeze(1); };
  const at::Tensor padding = (row < 0).logical_or(column < 0).unsqueeze(1);
  const at::Tensor hidden = differ(row).logical_or(differ(column)).logical_or(padding);
  if (!hidden.any().item<bool>()) return {};
  // The global token attends to everything except padding, and every cell attends to it.
  const at::Tensor of_global = at::constant_pad_nd(padding, {0, 1}, false);
  return at::cat({at::constant_pad_nd(hidden, {0, 1}, false), of_global}, 1).unsqueeze(1);
}

at::Tensor WindowAttention::distances(const Cut& cut, std::int64_t window) {
  const at::Tensor cells = at::arange(cut.cells(), at::kLong);
  const at::Tensor row = cells.div(cut.window.width, "floor");
  const at::Tensor column = cells.remainder(cut.window.width);
  const auto apart = [&](const at::Tensor& places) { return places.unsqueeze(1) - places.unsqueeze(0) + (window - 1); };
  return (apart(row) * (2 * window - 1) + apart(column)).flatten();
}

void WindowAttention::look_up(const Cut& cut, const at::Device& device) {
  if (distances_.defined() && distances_.device() == device && known_.height == cut.grid.height &&
      known_.width == cut.grid.width) {
    return;
  }
  distances_ = distances(cut, options_.window).to(device);
  hidden_ = hidden_pairs(cut);
  if (hidden_.defined()) hidden_ = hidden_.to(device);
  known_ = cut.grid;
}

/// The term added to the attention scores. Shapes: [windows or 1, heads, cells + 1, cells + 1].
at::Tensor WindowAttention::bias(const Cut& cut) {
  // An embedding, because its backward pass adds rows in a fixed order on every device.
  const at::Tensor of_pairs =
      at::embedding(distance_bias_, distances_).view({cut.cells(), cut.cells(), options_.heads}).permute({2, 0, 1});
  at::Tensor bias = at::constant_pad_nd(of_pairs, {0, 1, 0, 1}).unsqueeze(0);
  if (!hidden_.defined()) return bias;
  return bias.expand({cut.count(), options_.heads, cut.cells() + 1, cut.cells() + 1})
      .masked_fill(hidden_, -std::numeric_limits<double>::infinity());
}

/// The query, key and value of each window's cells, with the global token last.
/// Shapes: [3, B * windows * heads, cells + 1, depth].
at::Tensor WindowAttention::gathered(const at::Tensor& projected, const Cut& cut) const {
  const std::int64_t batch = projected.size(0);
  const std::int64_t heads = options_.heads;
  const std::int64_t depth = options_.dim / heads;
  const std::vector<at::Tensor> parts = projected.split_with_sizes({cut.grid.height * cut.grid.width, 1}, 1);
  at::Tensor grid = parts[0].view({batch, cut.grid.height, cut.grid.width, 3 * options_.dim});
  if (cut.is_padded()) {
    grid = at::constant_pad_nd(
        grid, {0, 0, 0, cut.padded().width - cut.grid.width, 0, cut.padded().height - cut.grid.height});
  }
  if (cut.is_shifted()) grid = at::roll(grid, {-cut.shift.height, -cut.shift.width}, {1, 2});
  const at::Tensor windows =
      grid.view({batch, cut.windows.height, cut.window.height, cut.windows.width, cut.window.width, 3, heads, depth})
          .permute({5, 0, 1, 3, 6, 2, 4, 7})
          .reshape({3, batch, cut.count(), heads, cut.cells(), depth});
  const at::Tensor global =
      parts[1].view({batch, 3, 1, heads, 1, depth}).transpose(0, 1).expand({3, batch, cut.count(), heads, 1, depth});
  return at::cat({windows, global}, 4).view({3, batch * cut.count() * heads, cut.cells() + 1, depth});
}

/// Puts the windows back into rows, the mean of the global tokens last. Shapes: [B * windows, cells + 1, dim] to [B, L
/// + 1, dim].
at::Tensor WindowAttention::scattered(const at::Tensor& windows, const Cut& cut, std::int64_t batch) const {
  const std::vector<at::Tensor> parts =
      windows.view({batch, cut.windows.height, cut.windows.width, cut.cells() + 1, options_.dim})
          .split_with_sizes({cut.cells(), 1}, 3);
  at::Tensor grid =
      parts[0]
          .reshape({batch, cut.windows.height, cut.windows.width, cut.window.height, cut.window.width, options_.dim})
          .transpose(2, 3)
          .reshape({batch, cut.padded().height, cut.padded().width, options_.dim});
  if (cut.is_shifted()) grid = at::roll(grid, {cut.shift.height, cut.shift.width}, {1, 2});
  const at::Tensor rows =
      grid.narrow(1, 0, cut.grid.height).narrow(2, 0, cut.grid.width).reshape({batch, -1, options_.dim});
  const at::Tensor global = parts[1].mean({1, 2}).view({batch, 1, options_.dim});
  return at::cat({rows, global}, 1);
}

at::Tensor WindowAttention::in_windows(const at::Tensor& projected, const Cut& cut) {
  look_up(cut, projected.device());
  const std::int64_t batch = projected.size(0);
  const std::int64_t heads = options_.heads;
  const std::vector<at::Tensor> all =
      gathered(projected, cut).view({3, batch * cut.count(), heads, cut.cells() + 1, -1}).unbind(0);
  const nn::AttentionOptions options{.scale = query_scale(options_.dim, heads), .bias = bias(cut), .hidden = {}};
  return scattered(nn::attention(all[0], all[1], all[2], options), cut, batch);
}

}  // namespace lockstep::captioning
