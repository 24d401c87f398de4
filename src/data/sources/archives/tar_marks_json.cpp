// SPDX-License-Identifier: Apache-2.0
#include "data/sources/archives/tar_marks_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/sources/annotations/rle.h"
#include "data/sources/files/json_numbers.h"
#include "data/sources/files/numbers.h"
#include "data/sources/packed/packed_parse.h"

#include "lockstep/base/json.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

Result<std::int64_t> class_number(std::string_view text) {
  text = without_blanks(text);
  const std::optional<std::int64_t> label = whole_number_of(text);
  if (!label) return Failure{fmt::format("'{}' in .cls is not a class number", text.substr(0, 40))};
  return *label;
}

/// Returns the numbers of a list; none if it does not have exactly `count` elements, all of them numbers.
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

/// Reads the objects of Lockstep's own JSON, and ignores the keys of other programs.
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
    const auto label = whole_number_at(from, "label");
    const auto crowd = flag_at(from, "crowd");
    const auto area = number_at(from, "area");
    if (!label) return Failure{label.error()};
    if (!crowd || !area) return Failure{!crowd ? crowd.error() : area.error()};
    const double covered = area->value_or(object.box.area());
    if (!is_area(covered)) return Failure{fmt::format("an area of {} pixels", covered)};
    object.label = label->value_or(0);
    object.crowd = crowd->value_or(false);
    object.area = static_cast<float>(covered);
    for (const json& one : from.value("points", json::array())) {
      const auto point = numbers(one, 3);
      if (!point) return Failure{"a point that is not x, y and visibility"};
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
    if (!text.is_string()) return Failure{"a mask that is not a string"};
    bytes_ += static_cast<std::uint64_t>(size_.width * size_.height);
    if (bytes_ > kMaxMaskBytes) return Failure{fmt::format("masks of more than {} bytes", kMaxMaskBytes)};
    const Result<RunLengths> runs = runs_from_text(text.get_ref<const std::string&>());
    if (!runs) return Failure{runs.error()};
    return mask_of(*runs, size_);
  }

  ImageSize size_;
  std::uint64_t bytes_ = 0;
};

// Returns "" if everything is valid.
std::string read_values(const json& values, AnnotatedImage& picture) {
  if (values.is_null()) return "";
  if (!values.is_array()) return fmt::format("\"values\" is {}, must be a list", shown_json(values));
  for (const json& value : values) {
    if (!value.is_number()) return fmt::format("\"values\" holds {}, must be numbers", shown_json(value));
    if (!fits_float(value.get<double>())) return fmt::format("a value of {}", value.dump());
    picture.values.push_back(value.get<float>());
  }
  return "";
}

// Returns "" if everything is valid.
std::string read_texts(const json& from, AnnotatedImage& picture) {
  const auto label = picture.label ? Result(std::optional<std::int64_t>()) : whole_number_at(from, "label");
  if (!label) return label.error();
  if (*label) picture.label = *label;
  const json id = from.value("id", json());
  const bool is_name = id.is_string();  // other programs store the sample's name as "id"
  const auto number = is_name ? Result(std::optional<std::int64_t>()) : whole_number_at(from, "id");
  if (!number) return number.error();
  picture.id = number->value_or(picture.id);
  if (const std::string why = read_values(from.value("values", json()), picture); !why.empty()) return why;
  if (!picture.captions.empty()) return "";  // a .txt file had captions
  if (from.contains("caption") && from["caption"].is_string())
    picture.captions.push_back(from["caption"].get<std::string>());
  if (!from.contains("captions") || !from["captions"].is_array()) return "";
  for (const json& caption : from["captions"]) {
    if (caption.is_string()) picture.captions.push_back(caption.get<std::string>());
  }
  return "";
}

Result<bool> read_json(std::string_view text, AnnotatedImage& picture) {
  json from;
  try {
    from = parse_json(text);
  } catch (const JsonError& error) {
    const bool is_json = error.why() != JsonError::kNoJson;
    return Failure{is_json ? ".json: " + error.message() : ".json is not JSON" + json_hint(text, error.byte())};
  }
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
      picture.pixels.fit_to(map->size);
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
