// SPDX-License-Identifier: Apache-2.0
// The marks of a packed sample: everything but its pixels. Masks are run lengths along the rows, zeros first.
#include <fmt/format.h>

#include "data/codec.h"
#include "data/sources/files/byte_order.h"
#include "data/sources/files/numbers.h"
#include "data/sources/packed/packed_parse.h"

namespace lockstep::data {
namespace {

void put_mask(ByteWriter& writer, const Image& mask) {
  std::vector<std::uint32_t> runs;
  std::uint8_t value = 0;
  std::uint32_t length = 0;
  for (const std::uint8_t pixel : mask.pixels) {
    if ((pixel != 0) != (value != 0)) {
      runs.push_back(length);
      value = value == 0 ? 1 : 0;
      length = 0;
    }
    ++length;
  }
  runs.push_back(length);
  writer.put(static_cast<std::uint32_t>(runs.size()));
  for (const std::uint32_t run : runs) writer.put(run);
}

void put_object(ByteWriter& writer, const Object& object) {
  for (const float side : {object.box.x1, object.box.y1, object.box.x2, object.box.y2, object.area}) writer.put(side);
  writer.put(object.label);
  writer.put(static_cast<std::uint8_t>(object.crowd ? 1 : 0));
  writer.put(static_cast<std::uint32_t>(object.points.size()));
  for (const Point& point : object.points) {
    writer.put(point.x);
    writer.put(point.y);
    writer.put(static_cast<std::uint8_t>(point.visible ? 1 : 0));
  }
  writer.put(static_cast<std::uint8_t>(object.mask ? 1 : 0));
  if (object.mask) put_mask(writer, *object.mask);
}

/// Reads a sample's marks, up to the first error.
class MarksReader {
 public:
  MarksReader(std::string_view bytes, ImageSize size) : reader_(bytes), size_(size) {}

  Result<AnnotatedImage> read() {
    AnnotatedImage picture;
    picture.id = reader_.get<std::int64_t>();
    picture.name = reader_.get_text();
    const bool labelled = reader_.get<std::uint8_t>() != 0;
    const auto label = reader_.get<std::int64_t>();
    if (labelled) picture.label = label;
    picture.captions.resize(reader_.get_count(sizeof(std::uint32_t)));
    for (std::string& caption : picture.captions) caption = reader_.get_text();
    picture.values.resize(reader_.get_count(sizeof(float)));
    for (float& value : picture.values) value = reader_.get<float>();
    const std::uint32_t maps = reader_.get_count(kMapBytes);
    for (std::uint32_t i = 0; i < maps && good(); ++i) picture.maps.push_back(read_map());
    const std::uint32_t objects = reader_.get_count(kObjectBytes);
    for (std::uint32_t i = 0; i < objects && good(); ++i) picture.objects.push_back(read_object());
    if (!why_.empty()) return Failure{why_};
    if (!reader_.ok()) return Failure{"the marks are cut short"};
    if (reader_.left() > 0) return Failure{fmt::format("{} bytes after the marks", reader_.left())};
    return picture;
  }

 private:
  static constexpr std::size_t kMapBytes = 9;      // minimum bytes of a map
  static constexpr std::size_t kObjectBytes = 34;  // minimum bytes of an object

  [[nodiscard]] bool good() const { return why_.empty() && reader_.ok(); }

  LabelMap read_map() {
    LabelMap map;
    map.image.size.width = reader_.get<std::uint32_t>();
    map.image.size.height = reader_.get<std::uint32_t>();
    map.fill = reader_.get<std::uint8_t>();
    if (map.image.size.width > kMaxSide || map.image.size.height > kMaxSide) {
      why_ = fmt::format("a map of {} x {} pixels", map.image.size.width, map.image.size.height);
      return map;
    }
    const auto bytes = static_cast<std::uint64_t>(map.image.size.width * map.image.size.height);
    const std::string_view pixels = reader_.get_raw(bytes);
    map.image.pixels.assign(pixels.begin(), pixels.end());
    return map;
  }

  Object read_object() {
    Object object;
    for (float* side : {&object.box.x1, &object.box.y1, &object.box.x2, &object.box.y2, &object.area}) {
      *side = reader_.get<float>();
    }
    object.label = reader_.get<std::int64_t>();
    object.crowd = reader_.get<std::uint8_t>() != 0;
    object.points.resize(reader_.get_count(2 * sizeof(float) + 1));
    for (Point& point : object.points) {
      point.x = reader_.get<float>();
      point.y = reader_.get<float>();
      point.visible = reader_.get<std::uint8_t>() != 0;
    }
    if (good()) why_ = object_fault(object);
    if (reader_.get<std::uint8_t>() != 0 && good()) object.mask = read_mask();
    return object;
  }

  Image read_mask() {
    Image mask{size_, 1, {}};
    const auto pixels = static_cast<std::uint64_t>(size_.width * size_.height);
    mask_bytes_ += pixels;
    if (mask_bytes_ > kMaxMaskBytes) {
      why_ = fmt::format("masks of more than {} bytes", kMaxMaskBytes);
      return mask;
    }
    const std::uint32_t runs = reader_.get_count(sizeof(std::uint32_t));
    mask.pixels.reserve(good() ? pixels : 0);
    for (std::uint32_t i = 0; i < runs && good(); ++i) {
      const auto run = reader_.get<std::uint32_t>();
      if (run > pixels - mask.pixels.size()) {
        why_ = "a mask is larger than its image";
      } else {
        mask.pixels.resize(mask.pixels.size() + run, static_cast<std::uint8_t>(i % 2));
      }
    }
    if (good() && mask.pixels.size() != pixels) why_ = "a mask is smaller than its image";
    return mask;
  }

  ByteReader reader_;
  ImageSize size_;
  std::uint64_t mask_bytes_ = 0;
  std::string why_;
};

}  // namespace

std::string packed_marks(const AnnotatedImage& picture) {
  ByteWriter writer;
  writer.put(picture.id);
  writer.put_text(picture.name);
  writer.put(static_cast<std::uint8_t>(picture.label ? 1 : 0));
  writer.put(picture.label.value_or(0));
  writer.put(static_cast<std::uint32_t>(picture.captions.size()));
  for (const std::string& caption : picture.captions) writer.put_text(caption);
  writer.put(static_cast<std::uint32_t>(picture.values.size()));
  for (const float value : picture.values) writer.put(value);
  writer.put(static_cast<std::uint32_t>(picture.maps.size()));
  for (const LabelMap& map : picture.maps) {
    writer.put(static_cast<std::uint32_t>(map.image.size.width));
    writer.put(static_cast<std::uint32_t>(map.image.size.height));
    writer.put(map.fill);
    writer.put_raw(map.image.pixels.data(), map.image.pixels.size());
  }
  writer.put(static_cast<std::uint32_t>(picture.objects.size()));
  for (const Object& object : picture.objects) put_object(writer, object);
  return writer.text();
}

Result<AnnotatedImage> parse_packed_marks(std::string_view bytes, ImageSize size) {
  return MarksReader(bytes, size).read();
}

}  // namespace lockstep::data
