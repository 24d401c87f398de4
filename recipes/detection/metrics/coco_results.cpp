// SPDX-License-Identifier: Apache-2.0
#include "detection/metrics/coco_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "detection/metrics/byte_reader.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"

namespace lockstep::detection {
namespace {

std::string name_of(std::int64_t label, const std::vector<std::string>& names) {
  const auto at = static_cast<std::size_t>(label);
  return at < names.size() ? names[at] : fmt::format("class {}", label);
}

}  // namespace

std::string detection_bytes(const std::vector<ImageDetections>& images) {
  std::string bytes;
  for (const ImageDetections& image : images) {
    append_bytes(bytes, image.index);
    append_bytes(bytes, image.id);
    append_bytes(bytes, static_cast<std::uint32_t>(image.found.size()));
    for (const FoundObject& object : image.found) append_bytes(bytes, object);
  }
  return bytes;
}

std::vector<ImageDetections> detections_from_bytes(std::string_view bytes) {
  std::vector<ImageDetections> images;
  for (ByteReader reader(bytes); !reader.done();) {
    ImageDetections& image = images.emplace_back();
    image.index = reader.take<std::int64_t>();
    image.id = reader.take<std::int64_t>();
    const auto count = reader.take<std::uint32_t>();
    for (std::uint32_t i = 0; i < count; ++i) image.found.push_back(reader.take<FoundObject>());
  }
  return images;
}

void sort_and_unite(std::vector<ImageDetections>& images) {
  std::ranges::stable_sort(images, {}, &ImageDetections::index);
  const auto same = [](const ImageDetections& a, const ImageDetections& b) { return a.index == b.index; };
  images.erase(std::unique(images.begin(), images.end(), same), images.end());
}

std::string coco_results(const std::vector<ImageDetections>& images, const std::vector<std::int64_t>& category_ids,
                         const std::vector<std::string>& file_names, const std::vector<std::string>& class_names) {
  std::vector<std::string> rows;
  for (const ImageDetections& image : images) {
    const auto at = static_cast<std::size_t>(image.index);
    for (const FoundObject& object : image.found) {
      const auto label = static_cast<std::size_t>(object.label);
      const std::int64_t category = label < category_ids.size() ? category_ids[label] : object.label;
      const std::string names =
          at < file_names.size() ? fmt::format(R"(, "file_name": {}, "category": {})", text::json_quote(file_names[at]),
                                               text::json_quote(name_of(object.label, class_names)))
                                 : "";
      rows.push_back(fmt::format(R"({{"image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "score": {}{}}})",
                                 image.id, category, text::json_number(object.box.x, 3),
                                 text::json_number(object.box.y, 3), text::json_number(object.box.width, 3),
                                 text::json_number(object.box.height, 3), text::json_number(object.score, 5), names));
    }
  }
  return "[" + text::join(rows, ",\n ") + "]\n";
}

std::string coco_json(const CocoNumbers& numbers, const std::vector<std::string>& class_names) {
  constexpr std::array<const char*, 12> kNames = {"AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                                  "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};
  const auto all = numbers.all();
  std::string text = "{";
  for (std::size_t i = 0; i < all.size(); ++i)
    text += fmt::format("\"{}\": {}, ", kNames[i], text::json_number(all[i]));
  std::vector<std::string> stats;
  for (const double number : all) stats.push_back(text::json_number(number));
  text += fmt::format("\n \"stats\": [{}],\n", text::join(stats));
  const HitCounts& hits = numbers.confident;
  text += fmt::format(R"( "confidence": {}, "precision": {}, "recall": {}, "f1": {}, "images": {},)", kConfident,
                      text::json_number(hits.precision()), text::json_number(hits.recall()),
                      text::json_number(hits.f1()), numbers.images);
  std::vector<std::string> classes;
  for (const ClassNumbers& each : numbers.classes) {
    classes.push_back(fmt::format(R"({{"name": {}, "label": {}, "objects": {}, "AP": {}, "AP50": {}}})",
                                  text::json_quote(name_of(each.label, class_names)), each.label, each.truths,
                                  text::json_number(each.ap), text::json_number(each.ap50)));
  }
  return text + "\n \"classes\": [" + text::join(classes, ",\n  ") + "]}\n";
}

}  // namespace lockstep::detection
