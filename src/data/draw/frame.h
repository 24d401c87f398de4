// SPDX-License-Identifier: Apache-2.0
// The frames of marks, on images and in legends.
#pragma once

#include "data/draw/canvas.h"
#include "lockstep/data/draw_boxes.h"

namespace lockstep::data {

/// Returns the part of a box inside the region, so that all sides of its frame are visible.
[[nodiscard]] Box cut_at_edges(const Box& box, const Region& region) noexcept;

/// Draws the mark's frame around `box`, in pixels of the canvas, without its text.
void draw_frame(Canvas& canvas, const Box& box, const BoxMark& mark);

}  // namespace lockstep::data
