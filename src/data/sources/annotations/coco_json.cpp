// SPDX-License-Identifier: Apache-2.0
#include "data/sources/annotations/coco_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "data/codec.h"
#include "data/sources/files/json_numbers.h"
#include "data/sources/files/numbers.h"

#include "lockstep/base/json.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

/// An annotation, whose image may come later in the file.
struct Annotation {
  std::int64_t image_id = 0;
  std::int64_t category = -1;
  std::int64_t place = 0;  // index in the file
  std::string caption;
  bool is_caption = false;
  ImageSize mask_size;  // size stated with its run lengths
  Object object;
  CocoOutline outline;
};

constexpr std::int64_t kMaxNamedId = 100'000;

/// Returns the id under `key`, which an entry must have.
Result<std::int64_t> needed_id(const json& object, const char* key) {
  const auto id = whole_number_at(object, key);
  if (!id) return Failure{id.error()};
  if (!*id) return Failure{fmt::format("no \"{}\"", key)};
  return **id;
}

std::optional<std::vector<double>> numbers(const json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<double> all;
  all.reserve(list.size());
  for (const json& value : list) {
    if (!value.is_number()) return std::nullopt;
    all.push_back(value.get<double>());
  }
  return all;
}

std::string read_box(const json& from, Object& object) {
  const auto at = from.find("bbox");
  const auto box = at == from.end() ? std::nullopt : numbers(*at);
  if (!box || box->size() != 4) return "no \"bbox\" of 4 numbers";
  const auto& side = *box;
  const bool near =
      std::ranges::all_of(side, is_coordinate) && is_coordinate(side[0] + side[2]) && is_coordinate(side[1] + side[3]);
  if (!near) return fmt::format("a box of [{}]", fmt::join(side, ", "));
  if (!(side[2] >= 0 && side[3] >= 0)) return fmt::format("a box of {} x {} pixels", side[2], side[3]);
  object.box = {static_cast<float>(side[0]), static_cast<float>(side[1]), static_cast<float>(side[0] + side[2]),
                static_cast<float>(side[1] + side[3])};
  return "";
}

std::string read_points(const json& from, Object& object) {
  const auto at = from.find("keypoints");
  if (at == from.end()) return "";
  const auto points = numbers(*at);
  if (!points || points->size() % 3 != 0) return "\"keypoints\" that are not triples (x, y, v)";
  if (const auto far = std::ranges::find_if_not(*points, is_coordinate); far != points->end()) {
    return fmt::format("a keypoint with the number {}", *far);
  }
  for (std::size_t i = 0; i < points->size(); i += 3) {
    const auto& value = *points;
    object.points.push_back({static_cast<float>(value[i]), static_cast<float>(value[i + 1]), value[i + 2] > 0});
  }
  return "";
}

std::string read_runs(const json& from, Annotation& to) {
  const auto counts = from.find("counts");
  const auto size = from.contains("size") ? numbers(from["size"]) : std::nullopt;
  if (counts == from.end() || !size || size->size() != 2) return "a \"segmentation\" without counts or size";
  const auto side = [](double value) {
    return value >= 0 && value <= kMaxSide ? static_cast<std::int64_t>(value) : -1;
  };
  to.mask_size = {side((*size)[1]), side((*size)[0])};
  if (counts->is_string()) {
    Result<RunLengths> runs = runs_from_text(counts->get_ref<const std::string&>());
    if (!runs) return runs.error();
    to.outline.runs = std::move(runs).value();
    return "";
  }
  if (!counts->is_array()) return "\"counts\" that are neither numbers nor a string";
  for (const json& run : *counts) {
    if (!run.is_number_unsigned() || run.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
      return "invalid \"counts\"";
    }
    to.outline.runs.push_back(run.get<std::uint32_t>());
  }
  return "";
}

std::string read_outline(const json& from, Annotation& to) {
  const auto at = from.find("segmentation");
  if (at == from.end()) return "";
  if (at->is_object()) return read_runs(*at, to);
  if (!at->is_array()) return "a \"segmentation\" that is neither polygons nor counts";
  for (const json& polygon : *at) {
    auto corners = numbers(polygon);
    if (!corners) return "a polygon that is not a list of numbers";
    to.outline.polygons.push_back(*std::move(corners));
  }
  return "";
}

/// Collects the elements of the three lists one by one, and combines them when all are read.
class CocoBuilder {
 public:
  explicit CocoBuilder(const CocoChoice& choice) : choice_(choice) {}

  void add(const std::string& section, const json& element) {
    if (!why_.empty()) return;
    std::int64_t& count = counts_[section];
    std::string why;
    if (!element.is_object()) {
      why = "not an object";
    } else if (section == "images") {
      why = add_image(element);
    } else if (section == "categories") {
      why = add_category(element);
    } else {
      why = add_annotation(element, count);
      if (!why.empty() && !choice_.strict) {
        leave_out(count, why);
        why.clear();
      }
    }
    if (!why.empty()) why_ = fmt::format("{}[{}]: {}", section, count, why);
    ++count;
  }

  Result<Coco> finish() {
    if (!why_.empty()) return Failure{why_};
    if (!counts_.contains("images")) return Failure{"no list \"images\""};
    number_categories();
    for (Annotation& annotation : annotations_) {
      const std::string why = place(annotation);
      if (why.empty()) continue;
      if (choice_.strict) return Failure{fmt::format("annotations[{}]: {}", annotation.place, why)};
      leave_out(annotation.place, why);
    }
    return std::move(coco_);
  }

 private:
  void leave_out(std::int64_t at, const std::string& why) {
    if (coco_.left_out++ == 0) coco_.first_left_out = fmt::format("annotations[{}]: {}", at, why);
  }

  std::string add_image(const json& from) {
    const auto file = from.find("file_name");
    if (!from.contains("id") || file == from.end() || !file->is_string()) {
      return "an image needs \"id\" and \"file_name\"";
    }
    const auto id = needed_id(from, "id");
    const auto width = whole_number_at(from, "width");
    const auto height = whole_number_at(from, "height");
    if (!id) return fmt::format("an image needs \"id\" and \"file_name\": {}", id.error());
    if (!width || !height) return !width ? width.error() : height.error();
    CocoImage image;
    image.id = *id;
    image.file = file->get<std::string>();
    image.size = {width->value_or(0), height->value_or(0)};
    if (image.size.width < 0 || image.size.height < 0 || image.size.width > kMaxSide || image.size.height > kMaxSide) {
      return fmt::format("{} x {} pixels", image.size.width, image.size.height);
    }
    if (!by_id_.emplace(*id, coco_.images.size()).second) return fmt::format("image id {} occurs twice", *id);
    coco_.images.push_back(std::move(image));
    return "";
  }

  std::string add_category(const json& from) {
    const auto name = from.find("name");
    if (!from.contains("id") || name == from.end() || !name->is_string()) {
      return "a category needs \"id\" and \"name\"";
    }
    const auto id = needed_id(from, "id");
    if (!id) return fmt::format("a category needs \"id\" and \"name\": {}", id.error());
    if (*id < 0) return fmt::format("category id {}", *id);
    if (!categories_.emplace(*id, name->get<std::string>()).second)
      return fmt::format("category id {} occurs twice", *id);
    return "";
  }

  std::string add_annotation(const json& from, std::int64_t at) {
    Annotation to;
    to.place = at;
    const auto image = needed_id(from, "image_id");
    if (!image) return image.error();
    to.image_id = *image;
    if (const auto caption = from.find("caption"); caption != from.end() && caption->is_string()) {
      to.caption = caption->get<std::string>();
      to.is_caption = true;
      annotations_.push_back(std::move(to));
      return "";
    }
    std::string why = read_box(from, to.object);
    if (why.empty()) why = read_points(from, to.object);
    if (why.empty()) why = note_id(from);
    if (why.empty() && choice_.masks) why = read_outline(from, to);
    if (why.empty()) why = read_numbers(from, to);
    if (why.empty()) annotations_.push_back(std::move(to));
    return why;
  }

  static std::string read_numbers(const json& from, Annotation& to) {
    const auto category = needed_id(from, "category_id");
    const auto crowd = flag_at(from, "iscrowd");
    const auto area = number_at(from, "area");
    if (!category) return category.error();
    if (!crowd || !area) return !crowd ? crowd.error() : area.error();
    to.category = *category;
    to.object.crowd = crowd->value_or(false);
    const double covered = area->value_or(to.object.box.area());
    if (!is_area(covered)) return fmt::format("an area of {} pixels", covered);
    to.object.area = static_cast<float>(covered);
    return "";
  }

  /// An annotation's id, which may be a string, is only used to find duplicates.
  std::string note_id(const json& from) {
    const auto at = from.find("id");
    if (at == from.end() || at->is_null()) return "";
    const auto number = whole_number(*at);
    if (!number && !at->is_string()) return fmt::format("\"id\" is {}, must be a whole number", shown_json(*at));
    const bool is_new = number ? annotation_ids_.insert(*number).second
                               : annotation_names_.insert(at->get_ref<const std::string&>()).second;
    return is_new ? "" : fmt::format("annotation id {} occurs twice", number ? at->dump() : shown_json(*at));
  }

  void number_categories() {
    for (const auto& [id, name] : categories_) {
      if (choice_.remap) {
        labels_[id] = std::ssize(coco_.class_names);
        coco_.class_names.push_back(name);
        coco_.category_ids.push_back(id);
        continue;
      }
      labels_[id] = id;
      if (id > kMaxNamedId) continue;
      coco_.class_names.resize(std::max(coco_.class_names.size(), static_cast<std::size_t>(id) + 1));
      coco_.class_names[static_cast<std::size_t>(id)] = name;
    }
  }

  std::string place(Annotation& annotation) {
    const auto found = by_id_.find(annotation.image_id);
    if (found == by_id_.end()) return fmt::format("no image has the id {}", annotation.image_id);
    CocoImage& image = coco_.images[found->second];
    if (annotation.is_caption) {
      image.captions.push_back(std::move(annotation.caption));
      return "";
    }
    const auto label = labels_.find(annotation.category);
    if (label == labels_.end()) return fmt::format("no category has the id {}", annotation.category);
    if (!annotation.outline.runs.empty() && annotation.mask_size != image.size) {
      return fmt::format("a mask of {} x {} pixels for an image of {} x {}", annotation.mask_size.width,
                         annotation.mask_size.height, image.size.width, image.size.height);
    }
    annotation.object.label = label->second;
    image.objects.push_back(std::move(annotation.object));
    if (choice_.masks) image.outlines.push_back(std::move(annotation.outline));
    return "";
  }

  CocoChoice choice_;
  Coco coco_;
  std::string why_;
  std::map<std::string, std::int64_t> counts_;
  std::unordered_map<std::int64_t, std::size_t> by_id_;
  std::unordered_set<std::int64_t> annotation_ids_;
  std::unordered_set<std::string> annotation_names_;
  std::map<std::int64_t, std::string> categories_;
  std::map<std::int64_t, std::int64_t> labels_;
  std::vector<Annotation> annotations_;
};

}  // namespace

Result<Coco> parse_coco(std::string_view text, const CocoChoice& choice) {
  CocoBuilder builder(choice);
  std::string section;
  const auto each = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key) {
      section = value.get<std::string>();
      if (section == "images" || section == "annotations" || section == "categories") return true;
      section.clear();
      return false;  // drops other keys, such as licenses
    }
    const bool whole = event == json::parse_event_t::object_end || event == json::parse_event_t::value ||
                       event == json::parse_event_t::array_end;
    if (depth != 2 || !whole || section.empty()) return true;
    builder.add(section, value);
    return false;  // drops the element, which has been read
  };
  try {
    const json rest = parse_json(text, {.bytes = kMostTextBytes, .part_depth = 2}, each);
    if (!rest.is_object()) return Failure{"not a JSON object"};
  } catch (const JsonError& error) {
    if (error.byte() == 0) return Failure{error.why()};
    return Failure{fmt::format("byte {}: {}{}", error.byte(), error.why(), json_hint(text, error.byte()))};
  } catch (const json::exception& error) {
    return Failure{error.what()};
  }
  return builder.finish();
}

Result<std::optional<Image>> draw_outline(const CocoOutline& outline, ImageSize size) {
  if (!outline.runs.empty()) {
    Result<Image> mask = mask_of(outline.runs, size);
    if (!mask) return Failure{mask.error()};
    return std::optional<Image>(std::move(mask).value());
  }
  if (outline.polygons.empty()) return std::optional<Image>();
  Image mask{size, 1, {}};
  mask.pixels.resize(static_cast<std::size_t>(size.width * size.height));
  for (const std::vector<double>& polygon : outline.polygons) {
    if (const Result<bool> good = draw_polygon(polygon, mask); !good) return Failure{good.error()};
  }
  return std::optional<Image>(std::move(mask));
}

}  // namespace lockstep::data
