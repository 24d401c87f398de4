// SPDX-License-Identifier: Apache-2.0
// Applies a trained network to an image of any size: whole or through overlapping windows, at several scales,
// optionally mirrored, and averages the results.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep::segmentation {

struct WindowOptions {
  std::int64_t window = 0;   ///< side of a window in pixels; 0 means the whole image
  double overlap = 1.0 / 3;  ///< overlap of two neighbouring windows, as a fraction of a window; below 1
  std::vector<double> scales = {1.0};
  bool flip = false;           ///< each window is also evaluated flipped
  std::int64_t base_size = 0;  ///< the longer side in pixels at scale 1; 0 means the image's own
  std::int64_t batch = 4;      ///< windows per batch
};

/// The starts of the windows along a side: evenly spaced, the last one at the end, neighbours overlapping by at least
/// `overlap` windows. {0} if one window covers the side.
/// Throws: UsageError if `overlap` is not in [0, 1), or the window is not positive.
[[nodiscard]] std::vector<std::int64_t> window_starts(std::int64_t length, std::int64_t window, double overlap);

/// The network: maps images [B, 3, h, w] to logits [B, C, h', w'] of any resolution.
using LogitsOf = std::function<at::Tensor(const at::Tensor& pictures)>;

/// Class probabilities for every pixel: the mean over scales of the mean over windows of the softmax. They depend only
/// on the image, not on `batch`. Shapes: picture [3, H, W], normalised as in training, to [C, H, W] in float32.
/// Throws: anything window_starts() throws; UsageError for scales that are not positive.
/// Source: the multi-scale tests of DeepLab and PSPNet.
[[nodiscard]] at::Tensor class_shares(const at::Tensor& picture, const LogitsOf& logits, const WindowOptions& options);

}  // namespace lockstep::segmentation
