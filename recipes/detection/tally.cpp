// SPDX-License-Identifier: Apache-2.0
#include "detection/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>

#include "detection/model/model.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

constexpr std::size_t kLengthDigits = 20;

/// Converts a row of centre and size in 0..1 to pixels of an image.
CocoBox box_of(const float* row, const ImageSize& size) {
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  return {.x = (row[0] - row[2] / 2.0) * width,
          .y = (row[1] - row[3] / 2.0) * height,
          .width = row[2] * width,
          .height = row[3] * height};
}

std::vector<FoundObject> objects_of(const Found& found, const ImageSize& size) {
  const at::Tensor boxes = found.boxes.to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor scores = found.scores.to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor labels = found.labels.to(at::kCPU).contiguous();
  std::vector<FoundObject> objects;
  for (std::int64_t i = 0; i < scores.numel(); ++i) {
    objects.push_back({.box = box_of(boxes.data_ptr<float>() + 4 * i, size),
                       .label = labels.data_ptr<std::int64_t>()[i],
                       .score = scores.data_ptr<float>()[i]});
  }
  return objects;
}

/// The number of detections of an image: at least as many as a class may have, and as many as the network has queries.
/// COCO limits the detections of each class, not those of an image, so no object may be lost here.
std::int64_t most_found(const Outputs& outputs) {
  const std::int64_t queries = outputs.at("boxes").size(2);
  return std::max(static_cast<std::int64_t>(kMostDetections), queries);
}

/// Removes a length and that many bytes from the front, and returns the bytes.
std::string_view take_part(std::string_view& bytes) {
  const auto length = static_cast<std::size_t>(std::stoull(std::string(bytes.substr(0, kLengthDigits))));
  const std::string_view part = bytes.substr(kLengthDigits, length);
  bytes.remove_prefix(kLengthDigits + length);
  return part;
}

}  // namespace

ImageTruth truth_of(const Detections& target) {
  const at::Tensor boxes = target.boxes.contiguous();
  ImageTruth truth{.id = target.id, .objects = {}};
  for (std::int64_t i = 0; i < boxes.size(0); ++i) {
    truth.objects.push_back({.box = box_of(boxes.data_ptr<float>() + 4 * i, target.size),
                             .label = target.labels[i].item<std::int64_t>(),
                             .area = target.areas[i].item<float>(),
                             .crowd = target.crowd[i].item<bool>()});
  }
  return truth;
}

std::vector<std::vector<FoundObject>> found_objects(const Outputs& outputs, const Targets& targets) {
  std::vector<std::vector<FoundObject>> all;
  const std::vector<Found> found = decode(outputs, most_found(outputs));
  for (std::size_t i = 0; i < targets.size(); ++i) all.push_back(objects_of(found.at(i), targets[i].size));
  return all;
}

CocoBox cut_at_edges(const CocoBox& box, ImageSize size) {
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  const double left = std::clamp(box.x, 0.0, width);
  const double top = std::clamp(box.y, 0.0, height);
  return {.x = left,
          .y = top,
          .width = std::clamp(box.x + box.width, left, width) - left,
          .height = std::clamp(box.y + box.height, top, height) - top};
}

void DetectionTally::add(const Outputs& outputs, const Batch& batch) {
  const auto& targets = std::any_cast<const Targets&>(batch.extra);
  const auto found = found_objects(outputs, targets);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const ImageTruth truth = truth_of(targets[i]);
    results_.push_back(evaluate_image(truth, found[i]));
    gallery_.add(batch.indices[i], truth, found[i], results_.back());
    if (keeps_all_) detections_.push_back({.index = batch.indices[i], .id = truth.id, .found = found[i]});
  }
}

/// The bytes of the results, then of the detections, each preceded by its length, then the bytes of the gallery.
std::string DetectionTally::bytes() const {
  const std::string results = to_bytes(results_);
  const std::string detections = detection_bytes(detections_);
  return fmt::format("{:020d}", results.size()) + results + fmt::format("{:020d}", detections.size()) + detections +
         gallery_.bytes();
}

std::vector<Metric> DetectionTally::metrics(const std::vector<std::string>& parts) {
  std::vector<ImageResult> all;
  gallery_ = Gallery();
  detections_.clear();
  for (const std::string& part : parts) {
    std::string_view rest = part;
    for (ImageResult& result : from_bytes(take_part(rest))) all.push_back(std::move(result));
    for (ImageDetections& image : detections_from_bytes(take_part(rest))) detections_.push_back(std::move(image));
    gallery_.merge(rest);
  }
  sort_and_unite(detections_);
  if (all.empty()) throw DataError("there is no sample to evaluate");
  numbers_ = accumulate(std::move(all));
  const HitCounts& hits = numbers_.confident;
  std::vector<Metric> metrics{{"ap", numbers_.ap}, {"ap50", numbers_.ap50}, {"f1", hits.f1()}};
  const auto add = [&](const char* name, double value) {
    // COCO uses -1 if the set has no object of that size, so a curve would show nothing.
    if (value != -1) metrics.push_back({.name = name, .value = value, .in_table = false});
  };
  add("ap75", numbers_.ap75);
  add("ap_small", numbers_.ap_small);
  add("ap_medium", numbers_.ap_medium);
  add("ap_large", numbers_.ap_large);
  add("ar1", numbers_.ar1);
  add("ar10", numbers_.ar10);
  add("ar100", numbers_.ar100);
  add("ar_small", numbers_.ar_small);
  add("ar_medium", numbers_.ar_medium);
  add("ar_large", numbers_.ar_large);
  add("precision", hits.precision());
  add("recall", hits.recall());
  return metrics;
}

std::string DetectionTally::report() const {
  std::string text = coco_text(numbers_);
  const HitCounts& hits = numbers_.confident;
  text += fmt::format(
      " at confidence {} and IoU 0.5: precision {:.3f}, recall {:.3f}, F1 {:.3f} ({} found, {} false, {} missed)\n",
      kConfident, hits.precision(), hits.recall(), hits.f1(), hits.hits, hits.false_ones, hits.missed);
  for (const ClassNumbers& each : numbers_.classes) {
    const auto label = static_cast<std::size_t>(each.label);
    text += fmt::format(" {:<16} {:>6} objects   AP {:.3f}   AP50 {:.3f}\n",
                        label < class_names_.size() ? class_names_[label] : fmt::format("class {}", label), each.truths,
                        each.ap, each.ap50);
  }
  return text;
}

std::map<std::string, std::string> DetectionTally::results(std::int64_t /*epoch*/) const {
  if (!keeps_all_) return {};
  std::vector<std::string> files;
  for (std::int64_t i = 0; source_ && category_ids_.empty() && i < source_->size(); ++i) {
    files.push_back(source_->describe(i));
  }
  return {{"detections.json", coco_results(detections_, category_ids_, files, class_names_)},
          {"metrics.json", coco_json(numbers_, class_names_)}};
}

std::vector<std::filesystem::path> DetectionTally::draw(const std::filesystem::path& folder) const {
  if (!source_) return {};
  return draw_results(gallery_, *source_, folder, {.class_names = class_names_});
}

}  // namespace lockstep::detection
