// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/draw_boxes.h"

#include <algorithm>

#include "data/draw/canvas.h"
#include "lockstep/data/resample.h"

namespace lockstep {
namespace {

using data::Canvas;
using data::Ink;
using data::Pen;

constexpr int kMarkLetters = 11;   // pixels
constexpr std::int64_t kDash = 4;  // pixels
constexpr Ink kBehindWords{16, 16, 16};

/// Every second piece of the frame.
void dash(Canvas& canvas, const Box& box, const BoxMark& mark) {
  const auto left = static_cast<std::int64_t>(box.x1);
  const auto top = static_cast<std::int64_t>(box.y1);
  const auto right = std::max(static_cast<std::int64_t>(box.x2), left + mark.thick);
  const auto bottom = std::max(static_cast<std::int64_t>(box.y2), top + mark.thick);
  for (std::int64_t x = left; x < right; x += 2 * kDash) {
    const std::int64_t width = std::min(kDash, right - x);
    canvas.fill({x, top, {width, mark.thick}}, mark.ink);
    canvas.fill({x, bottom - mark.thick, {width, mark.thick}}, mark.ink);
  }
  for (std::int64_t y = top; y < bottom; y += 2 * kDash) {
    const std::int64_t height = std::min(kDash, bottom - y);
    canvas.fill({left, y, {mark.thick, height}}, mark.ink);
    canvas.fill({right - mark.thick, y, {mark.thick, height}}, mark.ink);
  }
}

/// Above the box, or at its upper edge where there is no room.
void write(Canvas& canvas, const Pen& pen, const Box& box, const BoxMark& mark) {
  if (mark.text.empty()) return;
  const ImageSize size = canvas.image().size;
  const std::int64_t width = pen.width(mark.text) + 2;
  const std::int64_t height = kMarkLetters + 2;
  const std::int64_t left =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(box.x1), 0, std::max<std::int64_t>(size.width - width, 0));
  const std::int64_t top = std::max<std::int64_t>(static_cast<std::int64_t>(box.y1) - height, 0);
  canvas.fill({left, top, {width, height}}, kBehindWords);
  pen.write(canvas, {left + 1, top - 1, {width, kMarkLetters}}, mark.text, mark.ink);
}

}  // namespace

std::array<std::uint8_t, 3> mark_ink(std::int64_t number) { return data::ink_of(number); }

Image draw_boxes(const PixelView& picture, ImageSize size, const std::vector<BoxMark>& marks) {
  Canvas canvas(size, {});
  canvas.paste(resample(picture, size), 0, 0);
  const Pen pen(kMarkLetters);
  const float x = static_cast<float>(size.width) / static_cast<float>(picture.size.width);
  const float y = static_cast<float>(size.height) / static_cast<float>(picture.size.height);
  const auto scaled = [&](const Box& box) { return Box{box.x1 * x, box.y1 * y, box.x2 * x, box.y2 * y}; };
  for (const BoxMark& mark : marks) {
    const Box box = scaled(mark.box);
    if (mark.dashed) {
      dash(canvas, box, mark);
    } else {
      canvas.frame(box, mark.ink, mark.thick);
    }
  }
  // Words last: no frame runs through them.
  for (const BoxMark& mark : marks) write(canvas, pen, scaled(mark.box), mark);
  return canvas.image();
}

}  // namespace lockstep
