// SPDX-License-Identifier: Apache-2.0
// Makes a picture smaller together with its marks, before it is packed. No torch header.
#pragma once

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// Shrinks the decoded picture so that no side is longer than `max_side`; smaller ones stay as they are. Pixels by
/// area, masks and maps by their nearest pixel.
void shrink(AnnotatedImage& picture, std::int64_t max_side, ColorMode color);

}  // namespace lockstep::data
