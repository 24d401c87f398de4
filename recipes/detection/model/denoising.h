// SPDX-License-Identifier: Apache-2.0
// Denoising: in addition to the real queries, the decoder is given objects with a changed label and a moved box, and
// must restore them. This trains box refinement without matching.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "detection/data/targets.h"

namespace lockstep::detection {

/// D slots for each image, however many objects it has. Unlike in the original code, each image is packed separately.
/// At most D/2 of its n objects are used (if there are more, a random contiguous range), in D / (2n) groups; each group
/// has all these objects and the same number of negative boxes, which are moved farther and do not match an object. The
/// remaining slots are padding.
struct Denoising {
  at::Tensor labels;  ///< int64 [B, D]: sometimes deliberately wrong; `classes` for padding
  at::Tensor boxes;   ///< float32 [B, D, 4]: moved, as centre and size
  at::Tensor mask;    ///< float32 [B, 1, D + Q, D + Q]: a very low number if a slot or query must not attend there (a
                      ///< slot to other groups, a query to any slot), otherwise 0
  at::Tensor index;   ///< int64 [B, D]: the object to restore; -1 for negative boxes and padding
  at::Tensor weight;  ///< float32 [B, D]: 1 / the image's number of groups; 0 for padding
};

struct DenoisingOptions {
  std::int64_t slots = 60;  ///< D: slots per image, half of them with negative boxes
  std::int64_t queries = 100;
  std::int64_t classes = 8;
  double label_noise = 0.5;  ///< twice the probability of changing a label
  double box_noise = 1;  ///< maximum shift, relative to half a box's size; negative boxes move by one to two times this
};

/// Runs on the CPU. Draws the same number of values from libtorch's CPU generator whatever the targets are.
/// Throws: UsageError if an image has no targets.
[[nodiscard]] Denoising make_denoising(const Targets& targets, std::int64_t images, const DenoisingOptions& options);

/// Returns a copy whose labels, boxes and mask are on `device`, without waiting for it. The other fields stay on the
/// CPU, for the losses.
[[nodiscard]] Denoising on_device(const Denoising& denoising, const at::Device& device);

}  // namespace lockstep::detection
