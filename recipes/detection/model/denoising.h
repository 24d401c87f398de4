// SPDX-License-Identifier: Apache-2.0
// Denoising: besides the queries proper, the decoder gets objects with a changed label and a moved box, and has to
// restore them. They teach it to refine boxes without the need for matching.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "detection/data/targets.h"

namespace lockstep::detection {

/// D slots for each image, whatever it holds. Unlike in the origin, each image is packed by itself. Of its n objects at
/// most D/2 are taken (if there are more, a random run of neighbours), in D / (2n) groups; each group holds all objects
/// and as many negative boxes, which are moved farther and match no object. The remaining slots are padding.
struct Denoising {
  at::Tensor labels;  ///< int64 [B, D]: sometimes wrong on purpose; `classes` for padding
  at::Tensor boxes;   ///< float32 [B, D, 4]: moved, as centre and size
  at::Tensor mask;    ///< float32 [B, 1, D + Q, D + Q]: a very low number if a slot or query must not look there (a
                      ///< slot at other groups, a query at any slot), otherwise 0
  at::Tensor index;   ///< int64 [B, D]: the object to restore; -1 for negative boxes and padding
  at::Tensor weight;  ///< float32 [B, D]: 1 / groups of the image; 0 for padding
};

struct DenoisingOptions {
  std::int64_t slots = 60;  ///< D: slots per image, half of them with negative boxes
  std::int64_t queries = 100;
  std::int64_t classes = 8;
  double label_noise = 0.5;  ///< half of it is the probability of another label
  double box_noise = 1;      ///< share of half a box's size; negative boxes move by once to twice that
};

/// Runs on the CPU. Draws from libtorch's CPU generator, equally many numbers for any targets.
/// Throws: UsageError if an image has no targets.
[[nodiscard]] Denoising make_denoising(const Targets& targets, std::int64_t images, const DenoisingOptions& options);

/// Returns a copy whose labels, boxes and mask are on `device`, and does not wait for it. The other fields stay on the
/// CPU, as the losses count them there.
[[nodiscard]] Denoising on_device(const Denoising& denoising, const at::Device& device);

}  // namespace lockstep::detection
