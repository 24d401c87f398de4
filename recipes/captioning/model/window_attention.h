// SPDX-License-Identifier: Apache-2.0
// Attention within the windows of a grid, with one additional token that belongs to all windows.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>

#include "lockstep/nn/linear.h"

namespace lockstep::captioning {

struct WindowOptions {
  std::int64_t dim = 512;
  std::int64_t heads = 8;
  std::int64_t window = 6;  ///< side of a window in grid cells; 0 means attention over all tokens, with a mask
  bool shifted = false;     ///< the grid is shifted up and left by half a window before it is cut
};

/// The height and width of a grid; both 0 if the rows have no grid.
struct Grid {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Self-attention of [rows; global]. With windows, each row attends to the rows of its own window, with a bias that
/// depends on their offset, and to the global token. The global token attends to each window and itself; its result is
/// the mean over the windows. A grid that windows do not divide evenly is padded. A window larger than the grid becomes
/// the whole grid, unshifted. Cells that a shift brings together from opposite edges do not attend to each other.
///
/// Shapes: x [B, height * width + 1, dim], the global token last; mask bool [B, L] only for window 0, true for each
/// valid row. Cost: the projections are computed once per row, not once per window.
/// Source: Liu et al., Swin Transformer, 2021; Wang et al., End-to-End Transformer Based Model for Image Captioning,
///         2022.
class WindowAttention final : public torch::nn::Module {
 public:
  explicit WindowAttention(const WindowOptions& options);
  at::Tensor forward(const at::Tensor& x, const Grid& grid, const at::Tensor& mask);

 private:
  /// The division of a grid into windows.
  struct Cut {
    Grid grid;
    Grid window;   ///< size of each window
    Grid windows;  ///< number of windows in each direction
    Grid shift;
    [[nodiscard]] std::int64_t cells() const { return window.height * window.width; }
    [[nodiscard]] std::int64_t count() const { return windows.height * windows.width; }
    [[nodiscard]] Grid padded() const {
      return {.height = windows.height * window.height, .width = windows.width * window.width};
    }
    [[nodiscard]] bool is_padded() const { return padded().height > grid.height || padded().width > grid.width; }
    [[nodiscard]] bool is_shifted() const { return shift.height + shift.width > 0; }
  };

  [[nodiscard]] Cut cut_of(const Grid& grid) const;
  [[nodiscard]] static at::Tensor hidden_pairs(const Cut& cut);
  [[nodiscard]] static at::Tensor distances(const Cut& cut, std::int64_t window);
  void look_up(const Cut& cut, const at::Device& device);
  at::Tensor bias(const Cut& cut);
  at::Tensor over_everything(const at::Tensor& projected, const at::Tensor& mask);
  [[nodiscard]] at::Tensor gathered(const at::Tensor& projected, const Cut& cut) const;
  [[nodiscard]] at::Tensor scattered(const at::Tensor& windows, const Cut& cut, std::int64_t batch) const;
  at::Tensor in_windows(const at::Tensor& projected, const Cut& cut);

  WindowOptions options_;
  nn::Linear query_key_value_{nullptr};
  nn::Linear out_{nullptr};
  at::Tensor distance_bias_;  ///< [(2 window - 1)^2, heads]
  Grid known_;                ///< grid for which the next two members were computed
  at::Tensor distances_;      ///< int64 [cells * cells]: rows of distance_bias_
  at::Tensor hidden_;         ///< bool [windows, 1, cells + 1, cells + 1], or undefined
};

}  // namespace lockstep::captioning
