// SPDX-License-Identifier: Apache-2.0
// Denoising: beside the queries proper, objects with a changed label and a moved box that the decoder is to put right.
// They teach it to refine boxes without having to be matched.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "detection/data/targets.h"

namespace lockstep::detection {

/// D slots for each image, whatever it holds. Unlike in the origin each image is packed by itself: of n objects (at
/// most D/2; of more a random run of neighbours) it has D / (2n) groups, each with all objects and as many negative
/// boxes, which are moved farther and are no object. What is left over is padding.
struct Denoising {
  at::Tensor labels;  ///< int64 [B, D]: maybe wrong on purpose; `classes` for padding
  at::Tensor boxes;   ///< float32 [B, D, 4]: moved, as centre and size
  at::Tensor mask;    ///< float32 [B, 1, D + Q, D + Q]: 0, or a very low number where a slot or query must not look:
                      ///< slots at other groups, queries at any slot
  at::Tensor index;   ///< int64 [B, D]: the object to rebuild; -1 for negative boxes and padding
  at::Tensor weight;  ///< float32 [B, D]: 1 / groups of the image; 0 for padding
};

struct DenoisingOptions {
  std::int64_t slots = 60;  ///< D: of an image, half of them with negative boxes
  std::int64_t queries = 100;
  std::int64_t classes = 8;
  double label_noise = 0.5;  ///< half of it is the probability of another label
  double box_noise = 1;      ///< share of half a box's size; negative boxes move by once to twice that
};

/// On the CPU. Draws from libtorch's CPU generator: the same number of numbers for any targets.
/// Throws: UsageError where there are no targets for an image.
[[nodiscard]] Denoising make_denoising(const Targets& targets, std::int64_t images, const DenoisingOptions& options);

/// Returns a copy whose labels, boxes and mask are on `device`, and does not wait for it. The other fields stay on the
/// CPU, where the losses count them.
[[nodiscard]] Denoising on_device(const Denoising& denoising, const at::Device& device);

}  // namespace lockstep::detection
