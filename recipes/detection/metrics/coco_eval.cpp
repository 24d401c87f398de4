// SPDX-License-Identifier: Apache-2.0
// Evaluates one image: assigns its detections to its objects.
#include "detection/metrics/coco_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

constexpr std::array<std::array<double, 2>, kAreas> kAreaRanges{
    {{0, 1e5 * 1e5}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e5 * 1e5}}};

bool is_outside(double area, std::int64_t range) noexcept {
  const auto& [low, high] = kAreaRanges[static_cast<std::size_t>(range)];
  return area < low || area > high;
}

/// One class's objects and detections in one image.
struct ClassMatter {
  std::vector<const TruthObject*> truths;
  std::vector<const FoundObject*> found;  // the best 100, best first
  std::vector<double> overlaps;           // found x truths

  [[nodiscard]] double overlap(std::size_t detection, std::size_t truth) const {
    return overlaps[detection * truths.size() + truth];
  }
};

ClassMatter matter_of(std::int64_t label, const ImageTruth& truth, const std::vector<FoundObject>& found) {
  ClassMatter matter;
  for (const TruthObject& object : truth.objects) {
    if (object.label == label) matter.truths.push_back(&object);
  }
  for (const FoundObject& object : found) {
    if (object.label == label) matter.found.push_back(&object);
  }
  std::ranges::stable_sort(matter.found, std::greater<>(), &FoundObject::score);
  if (matter.found.size() > kMostDetections) matter.found.resize(kMostDetections);
  for (const FoundObject* one : matter.found) {
    for (const TruthObject* object : matter.truths) {
      matter.overlaps.push_back(box_overlap(one->box, object->box, object->crowd));
    }
  }
  return matter;
}

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Matches for one area range and one threshold.
class Matching {
 public:
  Matching(const ClassMatter& matter, std::int64_t area) : matter_(matter), ignored_(matter.truths.size()) {
    for (std::size_t i = 0; i < ignored_.size(); ++i) {
      ignored_[i] = matter.truths[i]->crowd || is_outside(matter.truths[i]->area, area);
    }
    // Objects that count come first: a detection takes an ignored object only if no other object matches.
    order_.resize(ignored_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_partition(order_.begin(), order_.end(), [&](std::size_t i) { return !ignored_[i]; });
  }

  [[nodiscard]] std::uint32_t counted() const {
    return static_cast<std::uint32_t>(std::ranges::count(ignored_, false));
  }
  void begin() { taken_.assign(ignored_.size(), false); }

  /// Returns the object matched with detection `at`, or kNone.
  std::size_t take(std::size_t at, double threshold) {
    double best = std::min(threshold, 1 - 1e-10);
    std::size_t match = kNone;
    for (const std::size_t i : order_) {
      if (taken_[i] && !matter_.truths[i]->crowd) continue;
      if (match != kNone && !ignored_[match] && ignored_[i]) break;
      if (matter_.overlap(at, i) < best) continue;
      best = matter_.overlap(at, i);
      match = i;
    }
    if (match != kNone) taken_[match] = true;
    return match;
  }
  [[nodiscard]] bool is_ignored(std::size_t truth) const { return ignored_[truth]; }

 private:
  const ClassMatter& matter_;
  std::vector<bool> ignored_;
  std::vector<std::size_t> order_;
  std::vector<bool> taken_;
};

ImageResult::OfClass evaluate_class(std::int64_t label, const ClassMatter& matter) {
  ImageResult::OfClass result{.label = label, .truths = {}, .found = {}};
  for (const FoundObject* one : matter.found) result.found.push_back({.score = one->score});
  for (std::int64_t area = 0; area < kAreas; ++area) {
    Matching matching(matter, area);
    result.truths[static_cast<std::size_t>(area)] = matching.counted();
    for (std::int64_t t = 0; t < kThresholds; ++t) {
      const std::uint64_t bit = std::uint64_t{1} << (area * kThresholds + t);
      matching.begin();
      for (std::size_t i = 0; i < matter.found.size(); ++i) {
        const std::size_t match = matching.take(i, overlap_thresholds()[static_cast<std::size_t>(t)]);
        const CocoBox& box = matter.found[i]->box;
        if (match != kNone && !matching.is_ignored(match)) result.found[i].hits |= bit;
        if (match == kNone && !is_outside(box.width * box.height, area)) result.found[i].misses |= bit;
      }
    }
  }
  return result;
}

bool is_finite(const CocoBox& box) {
  return std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) && std::isfinite(box.height);
}

void check(const ImageTruth& truth, const std::vector<FoundObject>& found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (is_finite(found[i].box) && std::isfinite(found[i].score)) continue;
    const CocoBox& box = found[i].box;
    throw DataError(fmt::format("detection {} of image {} is not finite: score {}, box [{}, {}, {}, {}]", i, truth.id,
                                found[i].score, box.x, box.y, box.width, box.height),
                    "the network has diverged");
  }
  for (std::size_t i = 0; i < truth.objects.size(); ++i) {
    if (is_finite(truth.objects[i].box) && std::isfinite(truth.objects[i].area)) continue;
    throw DataError(fmt::format("the box or area of object {} of image {} is not finite", i, truth.id));
  }
}

}  // namespace

double box_overlap(const CocoBox& found, const CocoBox& truth, bool crowd) noexcept {
  const double width = std::min(found.x + found.width, truth.x + truth.width) - std::max(found.x, truth.x);
  const double height = std::min(found.y + found.height, truth.y + truth.height) - std::max(found.y, truth.y);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height;
  const double own = found.width * found.height;
  return both / (crowd ? own : own + truth.width * truth.height - both);
}

ImageResult evaluate_image(const ImageTruth& truth, const std::vector<FoundObject>& found) {
  check(truth, found);
  std::set<std::int64_t> labels;
  for (const TruthObject& object : truth.objects) labels.insert(object.label);
  for (const FoundObject& object : found) labels.insert(object.label);
  ImageResult result{.id = truth.id, .classes = {}};
  for (const std::int64_t label : labels) {
    result.classes.push_back(evaluate_class(label, matter_of(label, truth, found)));
  }
  return result;
}

double image_quality(const ImageResult& result) {
  double sum = 0;
  for (std::int64_t t = 0; t < kThresholds; ++t) {
    HitCounts counts;
    for (const ImageResult::OfClass& entry : result.classes) counts = counts + confident_counts(entry, t);
    const bool nothing = counts.hits + counts.false_ones + counts.missed == 0;
    sum += nothing ? 1.0 : counts.f1();
  }
  return sum / static_cast<double>(kThresholds);
}

}  // namespace lockstep::detection
