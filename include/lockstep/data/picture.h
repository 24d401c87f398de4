// SPDX-License-Identifier: Apache-2.0
// An image with its annotations, which sources return and augmentations change. Its pixels stay encoded until they are
// needed, so that a crop need not decode the rest. No torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/data/decode.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A box, given by its corners in pixels; x2 and y2 are exclusive: the first column and row outside the box.
struct Box {
  float x1 = 0.0F;  ///< left edge
  float y1 = 0.0F;  ///< top edge
  float x2 = 0.0F;  ///< right edge
  float y2 = 0.0F;  ///< bottom edge

  /// Returns the width in pixels.
  [[nodiscard]] float width() const noexcept { return x2 - x1; }
  /// Returns the height in pixels.
  [[nodiscard]] float height() const noexcept { return y2 - y1; }
  /// Returns the area in pixels.
  [[nodiscard]] float area() const noexcept { return width() * height(); }
  bool operator==(const Box&) const = default;
};

/// A point in pixels from the top left corner of the image: pixel (0, 0) covers 0 .. 1.
struct Point {
  float x = 0.0F;       ///< distance from the left edge
  float y = 0.0F;       ///< distance from the top edge
  bool visible = true;  ///< false: the point is covered, or outside the image

  bool operator==(const Point&) const = default;
};

/// A rectangle of whole pixels.
struct Region {
  std::int64_t left = 0;  ///< first column
  std::int64_t top = 0;   ///< first row
  ImageSize size;         ///< width and height

  bool operator==(const Region&) const = default;
};

/// One annotated object.
struct Object {
  Box box;                 ///< bounding box
  std::int64_t label = 0;  ///< class, from 0
  bool crowd = false;      ///< COCO's iscrowd: a group of objects; a detection in it never counts as a false positive
  float area = 0.0F;       ///< pixels that the object covers; the box's area if no mask is known
  std::vector<Point> points;  ///< keypoints
  std::optional<Image> mask;  ///< one channel of zeros and ones, the size of the image
};

/// A value for every pixel, such as a class. Resampling a map does not mix values.
struct LabelMap {
  Image image;              ///< one channel, the size of the image
  std::uint8_t fill = 255;  ///< the value outside the image after an augmentation
};

/// The bytes of a PNG or JPEG file and the owner that keeps them alive.
struct EncodedImage {
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive
  std::string_view bytes;             ///< the bytes of the file
  std::string name;                   ///< name for messages: the file, or its position in an archive
  bool as_stored = false;             ///< true: the EXIF orientation is ignored, see Pixels::fit_to()
};

/// Decoded pixels in another object's memory, such as a mapped file: rows from the top, channels interleaved.
struct PixelView {
  std::shared_ptr<const void> owner;   ///< keeps `data` alive; if null, the caller must
  const std::uint8_t* data = nullptr;  ///< the first pixel
  ImageSize size;                      ///< width and height
  std::int64_t channels = 3;           ///< 1 or 3
  std::int64_t stride = 0;             ///< bytes from one row to the next; 0: rows have no gaps

  /// Returns the number of bytes of one row's pixels.
  [[nodiscard]] std::int64_t row_bytes() const noexcept { return size.width * channels; }
  /// Returns the first pixel of row `y`.
  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const noexcept {
    return data + y * (stride == 0 ? row_bytes() : stride);
  }
};

/// Returns a view of `image`, which must outlive it.
[[nodiscard]] inline PixelView view_of(const Image& image) {
  return {.owner = nullptr, .data = image.pixels.data(), .size = image.size, .channels = image.channels};
}

/// Pixels that are decoded on first use. Thread-safe: no.
class Pixels {
 public:
  Pixels() = default;
  Pixels(Image image) : state_(std::move(image)) {}             // NOLINT(google-explicit-constructor)
  Pixels(EncodedImage encoded) : state_(std::move(encoded)) {}  // NOLINT(google-explicit-constructor)
  Pixels(PixelView view) : state_(std::move(view)) {}           // NOLINT(google-explicit-constructor)

  /// Returns the size of the upright image; for encoded pixels it reads only the header.
  /// Throws: DataError naming the file.
  [[nodiscard]] ImageSize size() const;
  /// Ignores the EXIF orientation of encoded pixels if `annotated`, the image's size in its annotations, is the stored
  /// size and not the upright one. The first such file is logged.
  void fit_to(ImageSize annotated);

  /// Returns true while the pixels are still a file's bytes, not decoded.
  [[nodiscard]] bool encoded() const noexcept { return std::holds_alternative<EncodedImage>(state_); }
  /// Returns the file's bytes; nullptr if the pixels are decoded.
  [[nodiscard]] const EncodedImage* encoded_image() const noexcept { return std::get_if<EncodedImage>(&state_); }

  /// Returns the pixels for reading and changing. Encoded pixels are decoded as `mode`, and a view is copied.
  /// Throws: DataError naming the file, with the reason and its size in bytes.
  Image& decoded(ColorMode mode = ColorMode::kRgb);

  /// Returns the pixels for reading, without a copy. Encoded pixels are decoded as `mode`. Lifetime: until the pixels
  /// are changed. Throws: anything decoded() throws.
  [[nodiscard]] PixelView view(ColorMode mode = ColorMode::kRgb);

  /// Keeps only `region`, of which the caller needs at least `wanted` pixels in each direction. A JPEG may be decoded
  /// at a size reduced by a power of two. Pixels outside the region may never be decoded, so damage there may go
  /// undetected. A view is not copied. Returns the region's position in the remaining pixels. It covers all of them,
  /// except that a reduced JPEG may extend beyond the region by less than one pixel on each side.
  /// Throws: anything decoded() throws; UsageError if the region is empty or extends outside.
  Box crop(const Region& region, ImageSize wanted, ColorMode mode = ColorMode::kRgb);

 private:
  std::variant<Image, EncodedImage, PixelView> state_;
};

/// An image and its annotations. A field that the source does not provide stays empty.
struct AnnotatedImage {
  Pixels pixels;                      ///< decoded, or the bytes of a file
  std::vector<Object> objects;        ///< the objects in the image
  std::vector<LabelMap> maps;         ///< maps with a value for every pixel
  std::optional<std::int64_t> label;  ///< class of the whole image, from 0
  std::vector<std::string> captions;  ///< sentences that describe the image
  std::vector<float> values;  ///< other numbers that belong to the image: columns of a list, or multi-hot labels
  std::int64_t id = 0;        ///< the source's own ID for the image (COCO's image id), otherwise its index
  std::string name;           ///< name for messages; the file's path if there is one
};

/// A source of images: a data set before its transform. Thread-safe: size() and get() must be.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// Returns the number of images.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns image `index`, 0 <= index < size(), with its pixels still encoded if they come from a file.
  /// Throws: DataError naming the file; IoError.
  [[nodiscard]] virtual AnnotatedImage get(std::int64_t index) const = 0;
  /// Describes the image for messages, without reading it: its file if it has one of its own.
  [[nodiscard]] virtual std::string describe(std::int64_t index) const { return "image " + std::to_string(index); }
  /// Returns the names of the classes, by label; empty if the source has none.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const {
    static const std::vector<std::string> kNone;
    return kNone;
  }
};

}  // namespace lockstep

#pragma GCC visibility pop
