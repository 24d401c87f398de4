// SPDX-License-Identifier: Apache-2.0
#include "data/sources/archives/tar_marks_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "data/sources/annotations/rle.h"
#include "data/sources/files/numbers.h"
#include "data/sources/packed/packed_parse.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

Result<std::int64_t> class_number(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  std::int64_t label = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), label);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return Failure{fmt::format("'{}' in .cls is no class number", text.substr(0, 40))};
  }
  return label;
}

/// The numbers of a list; none where there are others than `count`, or something else is among them.
std::optional<std::vector<double>> numbers(const json& list, std::size_t count) {
  if (!list.is_array() || list.size() != count) return std::nullopt;
  std::vector<double> all;
  for (const json& value : list) {
    if (!value.is_number()) return std::nullopt;
    all.push_back(value.get<double>());
  }
  return all;
}

std::string far_away(const char* what, const json& list) { return fmt::format("{} {}", what, list.dump()); }

/// The objects of Lockstep's own JSON; what other programs write under other names is not looked at.
class ObjectReader {
 public:
  explicit ObjectReader(ImageSize size) : size_(size) {}

  Result<Object> read(const json& from) {
    const auto box = from.is_object() && from.contains("box") ? numbers(from["box"], 4) : std::nullopt;
    if (!box) return Failure{"an object without a box"};
    if (!std::ranges::all_of(*box, is_coordinate)) return Failure{far_away("a box of", from["box"])};
    Object object;
    const auto side = [&](std::size_t i) { return static_cast<float>((*box)[i]); };
    object.box = {side(0), side(1), side(2), side(3)};
    const json& label = from.value("label", json(0));
    const json& crowd = from.value("crowd", json(false));
    const json& area = from.value("area", json(object.box.area()));
    if (!label.is_number_integer() || !crowd.is_boolean() || !area.is_number())
      return Failure{"an object of wrong types"};
    if (!is_area(area.get<double>())) return Failure{fmt::format("an area of {} pixels", area.dump())};
    object.label = label.get<std::int64_t>();
    object.crowd = crowd.get<bool>();
    object.area = area.get<float>();
    for (const json& one : from.value("points", json::array())) {
      const auto point = numbers(one, 3);
      if (!point) return Failure{"a point that is not x, y and whether it is visible"};
      if (!std::ranges::all_of(*point, is_coordinate)) return Failure{far_away("a point of", one)};
      object.points.push_back({static_cast<float>((*point)[0]), static_cast<float>((*point)[1]), (*point)[2] != 0});
    }
    if (from.contains("mask")) {
      Result<Image> mask = read_mask(from["mask"]);
      if (!mask) return Failure{mask.error()};
      object.mask = std::move(mask).value();
    }
    return object;
  }

 private:
  Result<Image> read_mask(const json& text) {
    if (!text.is_string()) return Failure{"a mask that is no text"};
    bytes_ += static_cast<std::uint64_t>(size_.width * size_.height);
    if (bytes_ > kMaxMaskBytes) return Failure{fmt::format("masks of more than {} bytes", kMaxMaskBytes)};
    const Result<RunLengths> runs = runs_from_text(text.get_ref<const std::string&>());
    if (!runs) return Failure{runs.error()};
    return mask_of(*runs, size_);
  }

  ImageSize size_;
  std::uint64_t bytes_ = 0;
};

// "" where all is good.
std::string read_texts(const json& from, AnnotatedImage& picture) {
  if (from.contains("label") && from["label"].is_number_integer() && !picture.label)
    picture.label = from["label"].get<std::int64_t>();
  if (from.contains("id") && from["id"].is_number_integer()) picture.id = from["id"].get<std::int64_t>();
  if (from.contains("values") && from["values"].is_array()) {
    for (const json& value : from["values"]) {
      if (!value.is_number()) continue;
      if (!fits_float(value.get<double>())) return fmt::format("a value of {}", value.dump());
      picture.values.push_back(value.get<float>());
    }
  }
  if (!picture.captions.empty()) return "";  // a .txt said it
  if (from.contains("caption") && from["caption"].is_string())
    picture.captions.push_back(from["caption"].get<std::string>());
  if (!from.contains("captions") || !from["captions"].is_array()) return "";
  for (const json& caption : from["captions"]) {
    if (caption.is_string()) picture.captions.push_back(caption.get<std::string>());
  }
  return "";
}

Result<bool> read_json(std::string_view text, AnnotatedImage& picture) {
  const json from = json::parse(text.begin(), text.end(), nullptr, false);
  if (from.is_discarded()) return Failure{".json is no JSON"};
  if (!from.is_object()) return true;
  if (const std::string why = read_texts(from, picture); !why.empty()) return Failure{".json: " + why};
  if (!from.contains("objects") || !from["objects"].is_array()) return true;
  const bool masks = std::any_of(from["objects"].begin(), from["objects"].end(),
                                 [](const json& object) { return object.is_object() && object.contains("mask"); });
  ObjectReader reader(masks ? picture.pixels.size() : ImageSize{});
  for (const json& one : from["objects"]) {
    Result<Object> object = reader.read(one);
    if (!object) return Failure{".json: " + object.error()};
    picture.objects.push_back(std::move(object).value());
  }
  return true;
}

}  // namespace

bool is_tar_picture(std::string_view extension) noexcept {
  return extension == "png" || extension == "jpg" || extension == "jpeg";
}

Result<bool> read_tar_marks(const std::vector<TarContent>& contents, AnnotatedImage& picture) {
  std::string_view marks;
  for (const TarContent& content : contents) {
    if (content.extension == "txt") picture.captions.emplace_back(content.bytes);
    if (content.extension == "json") marks = content.bytes;
    if (content.extension == "cls") {
      const Result<std::int64_t> label = class_number(content.bytes);
      if (!label) return Failure{label.error()};
      picture.label = *label;
    }
    if (content.extension.starts_with("seg") && content.extension.ends_with(".png")) {
      Result<Image> map = decode_image(content.bytes, ColorMode::kGray);
      if (!map) return Failure{fmt::format(".{}: {}", content.extension, map.error())};
      picture.maps.push_back({std::move(map).value()});
    }
  }
  return marks.empty() ? Result<bool>(true) : read_json(marks, picture);
}

std::string tar_marks_json(const AnnotatedImage& picture) {
  json to = {{"id", picture.id}, {"name", picture.name}};
  if (picture.captions.size() > 1) to["captions"] = picture.captions;
  if (!picture.values.empty()) to["values"] = picture.values;
  for (const Object& object : picture.objects) {
    json one = {{"box", {object.box.x1, object.box.y1, object.box.x2, object.box.y2}},
                {"label", object.label},
                {"crowd", object.crowd},
                {"area", object.area}};
    for (const Point& point : object.points) one["points"].push_back({point.x, point.y, point.visible ? 1 : 0});
    if (object.mask) one["mask"] = text_of(runs_of(*object.mask));
    to["objects"].push_back(std::move(one));
  }
  return to.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace lockstep::data
