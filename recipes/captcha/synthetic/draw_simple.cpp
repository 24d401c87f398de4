// SPDX-License-Identifier: Apache-2.0
// The simple style. The original style: letters of 42, 50 or 56 pixels at a height of 60, rotated by up to 30 degrees,
// their corners shifted by up to 0.3 of the width and height, with overlaps of up to a quarter of a letter, 30 dots of
// width 3 and one elliptic arc. The darker the colour of a letter, the more transparent it is.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "captcha/synthetic/draw.h"

namespace lockstep::captcha {
namespace {

constexpr std::array kSizes{42.0, 50.0, 56.0};  // pixels per em, for an image height of 60
constexpr double kSimpleHeight = 60;
constexpr double kStretch = 1.15;     // vertical: the original letters are narrower and taller than DejaVu's
constexpr double kMaxTurn = 30;       // degrees
constexpr double kMaxOverlap = 0.25;  // fraction of the letters' mean width
constexpr int kDots = 30;             // at 160 x 60
constexpr double kNominalArea = 160 * 60;
constexpr double kDotWidth = 3;    // pixels
constexpr double kCurveWidth = 1;  // pixels
constexpr int kCurvePoints = 48;

// Returns the opacity of letters of this colour, 0 .. 256: the original code uses a letter's own brightness as its
// mask.
int opacity_of(Color color) {
  const int luma = (color.red * 299 + color.green * 587 + color.blue * 114) / 1000;
  return std::min(256, luma * 197 / 100 * 256 / 255);
}

void turn(Outline& letter, double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  for (Point& point : letter.points) {
    point = {point.x * cosine - point.y * sine, point.x * sine + point.y * cosine};
  }
}

// Warps the letter: moves the corners of its box, the two on each side in opposite directions, and all points with
// them.
void warp(Outline& letter, SampleRandom& random) {
  const Box box = box_of(letter);
  const double reach_x = box.width() * random.uniform(0.1, 0.3);
  const double reach_y = box.height() * random.uniform(0.2, 0.3);
  const double left_x = random.uniform(-reach_x, reach_x);
  const double top_y = random.uniform(-reach_y, reach_y);
  const double right_x = random.uniform(-reach_x, reach_x);
  const double bottom_y = random.uniform(-reach_y, reach_y);
  const double shrink_x = box.width() / (box.width() + std::abs(left_x) + std::abs(right_x));
  const double shrink_y = box.height() / (box.height() + std::abs(top_y) + std::abs(bottom_y));
  for (Point& point : letter.points) {
    const double u = (point.x - box.left) / box.width();
    const double v = (point.y - box.top) / box.height();
    const double x = (1 - u) * (1 - 2 * v) * -left_x + u * (1 - 2 * v) * right_x;
    const double y = (1 - v) * (1 - 2 * u) * -top_y + v * (1 - 2 * u) * bottom_y;
    point.x += x * shrink_x;
    point.y += y * shrink_y;
  }
}

Outline make_letter(char character, const Painter& painter, SampleRandom& random) {
  Outline letter = painter.fonts.glyph(random.below(painter.fonts.size()), character);
  const double em = kSizes[random.below(kSizes.size())] * static_cast<double>(painter.shape.height) / kSimpleHeight;
  for (Point& point : letter.points) point = {point.x * em, point.y * em * kStretch};
  turn(letter, random.uniform(-kMaxTurn, kMaxTurn));
  warp(letter, random);
  return letter;
}

// Places a letter's box at `left`, vertically centred.
void place(Outline& letter, double left, double height) {
  const Box box = box_of(letter);
  const double top = (height - box.height()) / 2;
  for (Point& point : letter.points) point = {point.x - box.left + left, point.y - box.top + top};
}

std::vector<Outline> make_text(const std::string& label, const Painter& painter, SampleRandom& random) {
  std::vector<Outline> letters;
  double total = 0;
  for (const char character : label) {
    letters.push_back(make_letter(character, painter, random));
    total += box_of(letters.back()).width();
  }
  const double mean = total / static_cast<double>(label.size());
  double left = 0.1 * mean;
  for (Outline& letter : letters) {
    place(letter, left, static_cast<double>(painter.shape.height));
    left += box_of(letter).width() + random.uniform(-kMaxOverlap, 0) * mean;
  }
  // Text that is too wide is squeezed, as in the original code. The last letter always stays inside the image.
  const double right = box_of(letters.back()).right;
  const double squeeze = std::min(1.0, static_cast<double>(painter.shape.width) / std::max(right, total));
  for (Outline& letter : letters) {
    for (Point& point : letter.points) point.x *= squeeze;
  }
  return letters;
}

void draw_dots(Canvas& canvas, Color color, SampleRandom& random) {
  const double area = static_cast<double>(canvas.width() * canvas.height());
  const int count = std::max(kDots, static_cast<int>(kDots * area / kNominalArea));
  for (int i = 0; i < count; ++i) {
    const auto x = static_cast<double>(random.between(0, canvas.width()));
    const auto y = static_cast<double>(random.between(0, canvas.height()));
    const std::array path{Point{x - 2, y - 2}, Point{x + 1, y + 1}};
    canvas.fill(stroke(path, kDotWidth), color);
  }
}

void draw_curve(Canvas& canvas, Color color, SampleRandom& random) {
  const auto width = static_cast<double>(canvas.width());
  const auto height = static_cast<double>(canvas.height());
  const double left = random.uniform(0, width / 5);
  const double right = random.uniform(width * 4 / 5, width);
  const double top = random.uniform(height / 5, height * 4 / 5);
  const double bottom = random.uniform(top, height * 4 / 5);
  const double begin = random.uniform(0, 20) * std::numbers::pi / 180;
  const double end = random.uniform(160, 200) * std::numbers::pi / 180;
  std::array<Point, kCurvePoints> path;
  for (int i = 0; i < kCurvePoints; ++i) {
    const double angle = begin + (end - begin) * i / (kCurvePoints - 1);
    path[static_cast<std::size_t>(i)] = {(left + right) / 2 + (right - left) / 2 * std::cos(angle),
                                         (top + bottom) / 2 + (bottom - top) / 2 * std::sin(angle)};
  }
  canvas.fill(stroke(path, kCurveWidth), color);
}

}  // namespace

Canvas render_simple(const std::string& label, const Painter& painter, SampleRandom& random) {
  const Color color = random_color(random, 10, 200);
  Canvas canvas(painter.rasterizer, painter.shape.width, painter.shape.height, random_color(random, 238, 255));
  for (const Outline& letter : make_text(label, painter, random)) canvas.fill(letter, color, opacity_of(color));
  draw_dots(canvas, color, random);
  draw_curve(canvas, color, random);
  canvas.smooth();
  return canvas;
}

}  // namespace lockstep::captcha
