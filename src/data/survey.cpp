// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/survey.h"

#include <array>

#include "data/codec.h"
#include "data/exif.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"

namespace lockstep {
namespace {

/// Returns the number of components in the first frame header; 0 if there is no frame header.
std::int64_t jpeg_channels(std::string_view bytes) {
  const auto byte = [&](std::size_t at) { return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U; };
  for (std::size_t at = 2; at + 9 < bytes.size();) {
    if (byte(at) != 0xff) {  // bytes outside segments
      ++at;
      continue;
    }
    const unsigned marker = byte(at + 1);
    const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) return byte(at + 9);
    at += 2 + 256 * byte(at + 2) + byte(at + 3);
  }
  return 0;
}

std::int64_t png_channels(std::string_view bytes) {
  constexpr std::size_t kColorType = 25;
  switch (bytes.size() > kColorType ? bytes[kColorType] : -1) {
    case 0:
      return 1;
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 3;  // RGB, or a palette
  }
}

/// Counts format and channels, before the pixels are decoded.
void count_format(const AnnotatedImage& image, Survey& survey) {
  const EncodedImage* encoded = image.pixels.encoded_image();
  if (encoded != nullptr && data::turn_of_file(encoded->bytes).any()) {
    ++(encoded->as_stored ? survey.as_stored : survey.turned);
  }
  if (encoded == nullptr) {
    ++survey.formats["decoded"];
  } else if (data::is_png(encoded->bytes)) {
    ++survey.formats["PNG"];
    ++survey.channels[png_channels(encoded->bytes)];
  } else {
    ++survey.formats["JPEG"];
    ++survey.channels[jpeg_channels(encoded->bytes)];
  }
}

void count_marks(const AnnotatedImage& image, Survey& survey) {
  if (image.label) {
    ++survey.classes[*image.label];
  } else {
    ++survey.unlabelled;
  }
  survey.objects_a_picture.push_back(static_cast<std::int64_t>(image.objects.size()));
  for (const Object& object : image.objects) {
    ++survey.objects[object.label];
    survey.boxes.push_back(object.box);
    if (object.box.width() <= 0 || object.box.height() <= 0) ++survey.empty_boxes;
    if (object.mask) ++survey.masks;
  }
  std::array<std::int64_t, 256> pixels{};
  for (const LabelMap& map : image.maps) {
    for (const std::uint8_t value : map.image.pixels) ++pixels[value];
  }
  for (std::size_t value = 0; value < pixels.size(); ++value) {
    if (pixels[value] > 0) survey.pixels[static_cast<std::int64_t>(value)] += pixels[value];
  }
  survey.maps += static_cast<std::int64_t>(image.maps.size());
  survey.captions += static_cast<std::int64_t>(image.captions.size());
}

void look_at(AnnotatedImage& image, Survey& survey) {
  const bool encoded = image.pixels.encoded();
  AnnotatedImage marks = image;
  const std::int64_t odd_before = odd_pictures();
  const PixelView view = image.pixels.view();
  survey.odd += odd_pictures() - odd_before;
  survey.sizes.push_back(view.size);
  count_format(marks, survey);
  if (!encoded) ++survey.channels[view.channels];
  count_marks(marks, survey);
}

}  // namespace

Survey survey_source(const ImageSource& source, const std::function<void(std::int64_t)>& progress) {
  Survey survey;
  survey.pictures = source.size();
  for (std::int64_t i = 0; i < survey.pictures; ++i) {
    std::string name = std::to_string(i);
    try {
      AnnotatedImage image = source.get(i);
      if (!image.name.empty()) name = image.name;
      look_at(image, survey);
    } catch (const DataError& fault) {
      const std::string words = fault.what();  // the advice is on its own line, which a list does not need
      survey.unreadable.push_back({name, text::first_line(words)});
    }
    if (progress) progress(i + 1);
  }
  return survey;
}

}  // namespace lockstep
