// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/draw_boxes.h"

#include <algorithm>

#include "data/draw/frame.h"
#include "lockstep/data/resample.h"

namespace lockstep {
namespace {

using data::Canvas;
using data::Ink;
using data::Pen;

constexpr int kMarkLetters = 11;   // pixels
constexpr std::int64_t kDash = 4;  // pixels
constexpr Ink kDark{16, 16, 16};
constexpr std::int64_t kMostOfCorner = 16;  // pixels

/// Draws the frame dashed.
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

/// Draws the corners: a quarter of each side at either end, up to kMostOfCorner.
void draw_corners(Canvas& canvas, const Box& box, const BoxMark& mark) {
  const auto left = static_cast<std::int64_t>(box.x1);
  const auto top = static_cast<std::int64_t>(box.y1);
  const auto right = std::max(static_cast<std::int64_t>(box.x2), left + mark.thick);
  const auto bottom = std::max(static_cast<std::int64_t>(box.y2), top + mark.thick);
  const std::int64_t width = std::clamp((right - left) / 4, mark.thick, kMostOfCorner);
  const std::int64_t height = std::clamp((bottom - top) / 4, mark.thick, kMostOfCorner);
  for (const std::int64_t y : {top, bottom - mark.thick}) {
    for (const std::int64_t x : {left, right - width}) canvas.fill({x, y, {width, mark.thick}}, mark.ink);
  }
  for (const std::int64_t x : {left, right - mark.thick}) {
    for (const std::int64_t y : {top, bottom - height}) canvas.fill({x, y, {mark.thick, height}}, mark.ink);
  }
}

bool overlap(const Region& a, const Region& b) {
  return a.left < b.left + b.size.width && b.left < a.left + a.size.width && a.top < b.top + b.size.height &&
         b.top < a.top + a.size.height;
}

/// Returns the first place that is still free: above the box, below it, or inside at its upper or lower edge. If none
/// is free, returns the place above the box.
Region place_of_words(const Box& box, ImageSize words, ImageSize picture, const std::vector<Region>& taken) {
  const auto inside = [](float at, std::int64_t length, std::int64_t whole) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, std::max<std::int64_t>(whole - length, 0));
  };
  const std::int64_t left = inside(box.x1, words.width, picture.width);
  const auto height = static_cast<float>(words.height);
  const auto at = [&](float top) { return Region{left, inside(top, words.height, picture.height), words}; };
  for (const float top : {box.y1 - height, box.y2, box.y1, box.y2 - height}) {
    const Region place = at(top);
    if (std::ranges::none_of(taken, [&](const Region& other) { return overlap(place, other); })) return place;
  }
  return at(box.y1 - height);
}

void write(Canvas& canvas, const Pen& pen, const Region& place, const BoxMark& mark) {
  if (mark.text.empty()) return;
  canvas.fill(place, mark.plate ? mark.ink : kDark);
  const Region letters{place.left + 1, place.top - 1, {place.size.width, kMarkLetters}};
  pen.write(canvas, letters, mark.text, mark.plate ? kDark : mark.ink);
}

/// Returns where each mark's caption goes. The last mark, which is drawn over the others, chooses first.
std::vector<Region> places_of_words(const std::vector<BoxMark>& marks, const std::vector<Box>& boxes, const Pen& pen,
                                    ImageSize picture) {
  std::vector<Region> places(marks.size());
  std::vector<Region> taken;
  for (std::size_t i = marks.size(); i-- > 0;) {
    if (marks[i].text.empty()) continue;
    places[i] = place_of_words(boxes[i], {pen.width(marks[i].text) + 2, kMarkLetters + 2}, picture, taken);
    taken.push_back(places[i]);
  }
  return places;
}

}  // namespace

namespace data {

Box cut_at_edges(const Box& box, const Region& region) noexcept {
  const auto left = static_cast<float>(region.left);
  const auto top = static_cast<float>(region.top);
  const float right = left + static_cast<float>(region.size.width);
  const float bottom = top + static_cast<float>(region.size.height);
  return {std::clamp(box.x1, left, right), std::clamp(box.y1, top, bottom), std::clamp(box.x2, left, right),
          std::clamp(box.y2, top, bottom)};
}

void draw_frame(Canvas& canvas, const Box& box, const BoxMark& mark) {
  if (mark.corners) {
    draw_corners(canvas, box, mark);
  } else if (mark.dashed) {
    dash(canvas, box, mark);
  } else {
    canvas.frame(box, mark.ink, mark.thick);
  }
}

}  // namespace data

std::array<std::uint8_t, 3> mark_ink(std::int64_t number) { return data::ink_of(number); }

Image draw_boxes(const PixelView& picture, ImageSize size, const std::vector<BoxMark>& marks) {
  Canvas canvas(size, {});
  canvas.paste(resample(picture, size), 0, 0);
  const Pen pen(kMarkLetters);
  const float x = static_cast<float>(size.width) / static_cast<float>(picture.size.width);
  const float y = static_cast<float>(size.height) / static_cast<float>(picture.size.height);
  std::vector<Box> boxes;
  for (const BoxMark& mark : marks) {
    const Box& box = mark.box;
    boxes.push_back(data::cut_at_edges({box.x1 * x, box.y1 * y, box.x2 * x, box.y2 * y}, {0, 0, size}));
  }
  for (std::size_t i = 0; i < marks.size(); ++i) data::draw_frame(canvas, boxes[i], marks[i]);
  // The captions are drawn last, so that no frame crosses them.
  const std::vector<Region> places = places_of_words(marks, boxes, pen, size);
  for (std::size_t i = 0; i < marks.size(); ++i) write(canvas, pen, places[i], marks[i]);
  return canvas.image();
}

}  // namespace lockstep
