// SPDX-License-Identifier: Apache-2.0
// Mosaic and BlendPictures: combine several images of a source.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "data/augment/blend.h"
#include "data/augment/marks.h"
#include "lockstep/base/error.h"
#include "lockstep/data/augment/detection.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/dataset.h"

namespace lockstep {
namespace {

using Four = std::array<AnnotatedImage, 4>;

/// Returns the size of a quarter: the largest width and height of the four.
ImageSize quarter_of(const Four& images) {
  ImageSize most;
  for (const AnnotatedImage& image : images) {
    const ImageSize size = image.pixels.size();
    most = {std::max(most.width, size.width), std::max(most.height, size.height)};
  }
  return most;
}

/// Copies region `where` of `from` to `to`, which has the same size.
void lay_over(Image& to, const Image& from, const Region& where) {
  const std::int64_t row = where.size.width * to.channels;
  for (std::int64_t y = where.top; y < where.top + where.size.height; ++y) {
    const std::int64_t at = (y * to.size.width + where.left) * to.channels;
    std::copy_n(from.pixels.begin() + at, row, to.pixels.begin() + at);
  }
}

/// Joins the images into the first one. All have the size of the canvas; image i provides `where[i]`.
AnnotatedImage joined(Four& images, const std::array<Region, 4>& where) {
  AnnotatedImage result = std::move(images[0]);
  Image& pixels = result.pixels.decoded();
  for (std::size_t i = 1; i < images.size(); ++i) {
    const Image& other = images[i].pixels.decoded();
    if (other.channels != pixels.channels) throw UsageError("Mosaic needs images with the same number of channels");
    lay_over(pixels, other, where[i]);
    const std::size_t maps = std::min(result.maps.size(), images[i].maps.size());
    for (std::size_t m = 0; m < maps; ++m) lay_over(result.maps[m].image, images[i].maps[m].image, where[i]);
    std::ranges::move(images[i].objects, std::back_inserter(result.objects));
  }
  return result;
}

/// The source of the other images, and the list for unreadable ones. If the list is null, an unreadable image is an
/// error.
struct Others {
  const ImageSource& source;
  SampleRandom& random;
  std::vector<BadSample>* left_out;

  /// Draws and decodes an image, so that a damaged image is found here.
  [[nodiscard]] AnnotatedImage draw() const {
    constexpr int kTries = 100;
    for (int tries = 1;; ++tries) {
      const auto index = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(source.size())));
      try {
        AnnotatedImage other = source.get(index);
        (void)other.pixels.view();
        return other;
      } catch (const DataError& fault) {
        if (left_out == nullptr || tries == kTries) throw;
        left_out->push_back({index, fault.message()});
      }
    }
  }
};

void make_mosaic(const Mosaic& mosaic, AnnotatedImage& image, const Others& others);
void make_blend(const BlendPictures& blend, AnnotatedImage& image, const Others& others);

}  // namespace

void Mosaic::operator()(AnnotatedImage& image, SampleContext& context) const {
  if (context.random.chance(p)) make_mosaic(*this, image, {*source, context.random, context.left_out});
}

void Mosaic::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) make_mosaic(*this, image, {*source, random, nullptr});
}

void BlendPictures::operator()(AnnotatedImage& image, SampleContext& context) const {
  if (context.random.chance(p)) make_blend(*this, image, {*source, context.random, context.left_out});
}

void BlendPictures::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) make_blend(*this, image, {*source, random, nullptr});
}

namespace {

void make_mosaic(const Mosaic& mosaic, AnnotatedImage& image, const Others& others) {
  Four images;
  images[0] = std::move(image);
  for (std::size_t i = 1; i < images.size(); ++i) images[i] = others.draw();
  for (AnnotatedImage& one : images) ResizeShorter{.shorter = mosaic.shorter}(one);
  const ImageSize quarter = quarter_of(images);
  const ImageSize canvas{2 * quarter.width, 2 * quarter.height};
  std::array<Region, 4> where;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::int64_t left = i % 2 == 0 ? 0 : quarter.width;
    const std::int64_t top = i < 2 ? 0 : quarter.height;
    where[i] = {left, top, images[i].pixels.size()};
    data::place(images[i], {-left, -top, canvas}, mosaic.fill);
  }
  image = joined(images, where);
  const Affine turn{.degrees = mosaic.degrees,
                    .translate_x = mosaic.translate,
                    .translate_y = mosaic.translate,
                    .min_scale = mosaic.min_scale,
                    .max_scale = mosaic.max_scale,
                    .interpolation = Interpolation::kBilinear,
                    .fill = mosaic.fill};
  turn(image, others.random);
}

void make_blend(const BlendPictures& blend, AnnotatedImage& image, const Others& others) {
  const auto has_planes = [](const AnnotatedImage& picture) {
    return !picture.maps.empty() ||
           std::ranges::any_of(picture.objects, [](const Object& one) { return one.mask.has_value(); });
  };
  AnnotatedImage other = others.draw();
  if (has_planes(image) || has_planes(other)) {
    throw UsageError("BlendPictures takes boxes and points; masks and maps cannot be blended");
  }
  const double share = others.random.uniform(blend.min_share, blend.max_share);
  Image& pixels = image.pixels.decoded();
  Resize{.size = pixels.size}(other);
  if (other.pixels.decoded().channels != pixels.channels) {
    throw UsageError("BlendPictures needs images with the same number of channels");
  }
  data::blend_images(pixels, other.pixels.decoded(), share);
  std::ranges::move(other.objects, std::back_inserter(image.objects));
}

}  // namespace
}  // namespace lockstep
