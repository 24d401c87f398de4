// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment/turn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "data/augment/marks.h"
#include "data/pixel_kernel.h"

namespace lockstep {
namespace {

using data::Motion;

void mirror(Image& image) {
  for (std::int64_t y = 0; y < image.size.height; ++y) {
    data::mirror_row(image.pixels.data() + y * image.size.width * image.channels, image.size.width, image.channels);
  }
}

void turn_over(Image& image) {
  const std::int64_t row = image.size.width * image.channels;
  for (std::int64_t y = 0; y < image.size.height / 2; ++y) {
    const auto upper = image.pixels.begin() + y * row;
    std::swap_ranges(upper, upper + row, image.pixels.begin() + (image.size.height - 1 - y) * row);
  }
}

Motion inverse(const Motion& motion) {
  const double determinant = motion.xx * motion.yy - motion.xy * motion.yx;
  Motion to{.xx = motion.yy / determinant,
            .xy = -motion.xy / determinant,
            .yx = -motion.yx / determinant,
            .yy = motion.xx / determinant};
  to.x0 = -(to.xx * motion.x0 + to.xy * motion.y0);
  to.y0 = -(to.yx * motion.x0 + to.yy * motion.y0);
  return to;
}

int flag_of(Interpolation interpolation) {
  if (interpolation == Interpolation::kNearest) return cv::INTER_NEAREST;
  return interpolation == Interpolation::kBilinear ? cv::INTER_LINEAR : cv::INTER_CUBIC;
}

/// Returns the warped image. `from` maps each pixel of the result to its place in the image.
Image warped(const PixelView& view, const Motion& from, Interpolation interpolation, const Color& fill) {
  Image image = data::solid(view.size, view.channels, fill);
  const int type = view.channels == 1 ? CV_8UC1 : CV_8UC3;
  const auto width = static_cast<int>(view.size.width);
  const auto height = static_cast<int>(view.size.height);
  // OpenCV has no const view; it only reads this one.
  const cv::Mat in(height, width, type, const_cast<std::uint8_t*>(view.data),
                   static_cast<std::size_t>(view.stride == 0 ? view.row_bytes() : view.stride));
  cv::Mat out(height, width, type, image.pixels.data());
  // OpenCV puts pixel centres at integers; here they are at half-integers.
  const double x0 = from.x0 + 0.5 * (from.xx + from.xy) - 0.5;
  const double y0 = from.y0 + 0.5 * (from.yx + from.yy) - 0.5;
  const cv::Matx23d matrix(from.xx, from.xy, x0, from.yx, from.yy, y0);
  cv::warpAffine(in, out, matrix, out.size(), flag_of(interpolation) | cv::WARP_INVERSE_MAP, cv::BORDER_CONSTANT,
                 cv::Scalar(fill[0], fill[1], fill[2]));
  return image;
}

struct WarpOptions {
  Interpolation interpolation;
  Color fill;
};

void warp(AnnotatedImage& image, const Motion& motion, const WarpOptions& options) {
  const Motion from = inverse(motion);
  image.pixels = warped(image.pixels.view(), from, options.interpolation, options.fill);
  data::change_planes(image, [&](const Image& plane, std::uint8_t empty) {
    return warped(view_of(plane), from, Interpolation::kNearest, {empty, empty, empty});
  });
  data::move_marks(image, motion, image.pixels.size());
}

double radians(double degrees) { return degrees * std::numbers::pi / 180.0; }

/// Returns the affine map about the centre of the image.
Motion motion_of(const AffineParameters& parameters, ImageSize size) {
  const double turn = radians(parameters.degrees) - radians(parameters.shear_y);
  const double tall = std::cos(radians(parameters.shear_y));
  const double slant = std::tan(radians(parameters.shear_x));
  Motion motion{.xx = parameters.scale * std::cos(turn) / tall,
                .xy = parameters.scale * (-std::cos(turn) * slant / tall - std::sin(radians(parameters.degrees))),
                .yx = parameters.scale * std::sin(turn) / tall,
                .yy = parameters.scale * (-std::sin(turn) * slant / tall + std::cos(radians(parameters.degrees)))};
  const double x = static_cast<double>(size.width) / 2.0;
  const double y = static_cast<double>(size.height) / 2.0;
  motion.x0 = x + parameters.translate_x - motion.xx * x - motion.xy * y;
  motion.y0 = y + parameters.translate_y - motion.yx * x - motion.yy * y;
  return motion;
}

}  // namespace

void HorizontalFlip::apply(AnnotatedImage& image) {
  Image& pixels = image.pixels.decoded();
  mirror(pixels);
  data::change_planes(image, [](Image plane, std::uint8_t /*empty*/) {
    mirror(plane);
    return plane;
  });
  data::move_marks(image, {.xx = -1.0, .x0 = static_cast<double>(pixels.size.width)}, pixels.size);
}

void HorizontalFlip::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image);
}

void VerticalFlip::apply(AnnotatedImage& image) {
  Image& pixels = image.pixels.decoded();
  turn_over(pixels);
  data::change_planes(image, [](Image plane, std::uint8_t /*empty*/) {
    turn_over(plane);
    return plane;
  });
  data::move_marks(image, {.yy = -1.0, .y0 = static_cast<double>(pixels.size.height)}, pixels.size);
}

void VerticalFlip::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image);
}

AffineParameters Affine::parameters(ImageSize picture, SampleRandom& random) const {
  const auto shift = [&](double share, std::int64_t side) {
    const double most = share * static_cast<double>(side);
    return std::nearbyint(random.uniform(-most, most));
  };
  AffineParameters drawn;
  drawn.degrees = random.uniform(-degrees, degrees);
  drawn.translate_x = shift(translate_x, picture.width);
  drawn.translate_y = shift(translate_y, picture.height);
  drawn.scale = random.uniform(min_scale, max_scale);
  drawn.shear_x = random.uniform(-shear_x, shear_x);
  drawn.shear_y = random.uniform(-shear_y, shear_y);
  return drawn;
}

void Affine::apply(AnnotatedImage& image, const AffineParameters& parameters) const {
  warp(image, motion_of(parameters, image.pixels.size()), {interpolation, fill});
}

void Affine::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image, parameters(image.pixels.size(), random));
}

void Rotation::apply(AnnotatedImage& image, double degrees_left) const {
  warp(image, motion_of({.degrees = -degrees_left}, image.pixels.size()), {interpolation, fill});
}

void Rotation::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image, random.uniform(-degrees, degrees));
}

}  // namespace lockstep
