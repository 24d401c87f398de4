// SPDX-License-Identifier: Apache-2.0
// The network's input in training, in addition to the images.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <vector>

#include "lockstep/data/augment/to_tensor.h"

namespace lockstep::detection {

/// The objects in a batch's images, in batch order: boxes as centre and size in 0..1, labels 0..C-1.
using Targets = std::vector<lockstep::Detections>;

}  // namespace lockstep::detection
