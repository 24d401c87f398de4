// SPDX-License-Identifier: Apache-2.0
// A part of a picture in another size, with its marks: what Resize and RandomResizedCrop are made of.
#pragma once

#include "lockstep/data/resample.h"

namespace lockstep::data {

struct ResizeOptions {
  ImageSize size;
  Interpolation interpolation = Interpolation::kBilinear;
  bool shrink_while_decoding = false;
};

/// Throws: UsageError where the size is none, or the part reaches outside.
void resize_part(AnnotatedImage& image, const Region& part, const ResizeOptions& options);

}  // namespace lockstep::data
