// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// Sets image = image * share + other * (1 - share), as Pillow's blend() does. Both have the same size and channels.
void blend_images(Image& image, const Image& other, double share);

}  // namespace lockstep::data
