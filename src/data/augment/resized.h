// SPDX-License-Identifier: Apache-2.0
// Resizes part of an image with its marks, for Resize and RandomResizedCrop.
#pragma once

#include "lockstep/data/resample.h"

namespace lockstep::data {

struct ResizeOptions {
  ImageSize size;
  Interpolation interpolation = Interpolation::kBilinear;
  bool shrink_while_decoding = false;
};

/// Throws: UsageError if the size is empty, or the part extends outside the image.
void resize_part(AnnotatedImage& image, const Region& part, const ResizeOptions& options);

}  // namespace lockstep::data
