// SPDX-License-Identifier: Apache-2.0
// COCO's evaluation of boxes, in two parts: the results for one image, which any rank can compute, and the metrics over
// all images, which need all results on one rank. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detection {

/// A box in COCO's notation. Units: pixels.
struct CocoBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct TruthObject {
  CocoBox box;
  std::int64_t label = 0;
  double area = 0;     ///< square pixels; selects small, medium or large
  bool crowd = false;  ///< a crowd matches any number of detections, which are then ignored
};

struct FoundObject {
  CocoBox box;
  std::int64_t label = 0;
  double score = 0;
};

struct ImageTruth {
  std::int64_t id = 0;
  std::vector<TruthObject> objects;
};

/// The intersection over union; for a crowd, the intersection over the detection's area.
[[nodiscard]] double box_overlap(const CocoBox& found, const CocoBox& truth, bool crowd) noexcept;

inline constexpr std::int64_t kThresholds = 10;  ///< number of overlap thresholds: 0.50, 0.55 .. 0.95
inline constexpr std::int64_t kAreas = 4;  ///< area ranges: all, small (up to 32^2 pixels), medium, large (from 96^2)
inline constexpr std::size_t kMostDetections = 100;  ///< detections per image and class; any beyond that are ignored

/// The results for one image, sufficient for all metrics. Bit `area * kThresholds + threshold` is set in a detection's
/// `hits` if it is a hit, in `misses` if it is a false detection, and in neither if it matches a crowd or is outside
/// the area range.
struct ImageResult {
  struct Found {
    double score = 0;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    bool operator==(const Found&) const = default;
  };
  struct OfClass {
    std::int64_t label = 0;
    std::array<std::uint32_t, kAreas> truths{};  ///< objects that count, by area range
    std::vector<Found> found;                    ///< detections, best first
    bool operator==(const OfClass&) const = default;
  };
  std::int64_t id = 0;
  std::vector<OfClass> classes;  ///< classes with an object or a detection, by label
  bool operator==(const ImageResult&) const = default;
};

/// Assigns detections to objects as COCOeval does: takes the 100 best detections of each class, best score first (equal
/// scores in the given order), and matches each with the free object with the largest overlap.
/// Throws: DataError that names the image if a box or a score is not finite.
/// Source: pycocotools' COCOeval.evaluateImg.
[[nodiscard]] ImageResult evaluate_image(const ImageTruth& truth, const std::vector<FoundObject>& found);

/// Encodes results for a message between ranks: 18 bytes per detection.
[[nodiscard]] std::string to_bytes(const std::vector<ImageResult>& results);
/// Throws: InternalError if the bytes did not come from to_bytes().
[[nodiscard]] std::vector<ImageResult> from_bytes(std::string_view bytes);

/// The minimum score of detections that count in HitCounts, at an overlap of 0.5.
inline constexpr double kConfident = 0.5;

struct HitCounts {
  std::int64_t hits = 0;
  std::int64_t false_ones = 0;
  std::int64_t missed = 0;

  [[nodiscard]] double precision() const noexcept;  ///< 0 if there are no detections
  [[nodiscard]] double recall() const noexcept;     ///< 0 if there are no objects
  [[nodiscard]] double f1() const noexcept;
};

struct ClassNumbers {
  std::int64_t label = 0;
  std::int64_t truths = 0;
  double ap = -1;    ///< AP; -1 if there are no objects of this class
  double ap50 = -1;  ///<
};

/// COCO's metrics. A metric is -1 if there are no objects to find.
struct CocoNumbers {
  double ap = -1;
  double ap50 = -1;
  double ap75 = -1;
  double ap_small = -1;
  double ap_medium = -1;
  double ap_large = -1;
  double ar1 = -1;  ///< recall with at most one detection per image and class
  double ar10 = -1;
  double ar100 = -1;
  double ar_small = -1;
  double ar_medium = -1;
  double ar_large = -1;
  HitCounts confident;                ///< counts of detections with a score of at least kConfident
  std::vector<ClassNumbers> classes;  ///< classes with an object or a detection, by label
  std::int64_t images = 0;

  /// The twelve metrics in pycocotools' order.
  [[nodiscard]] std::array<double, 12> all() const noexcept;
};

/// Returns the metrics of all images, for any order of `results`. An image may occur twice, because ranks repeat images
/// so that every rank has the same number; it counts only once. Throws: InternalError naming the image if two of its
/// results differ.
/// Source: pycocotools' COCOeval.accumulate and summarize.
[[nodiscard]] CocoNumbers accumulate(std::vector<ImageResult> results);

/// The twelve lines that pycocotools prints for the metrics.
[[nodiscard]] std::string coco_text(const CocoNumbers& numbers);

/// The quality of an image's detections, 0 .. 1: the F1 of the confident detections, averaged over the ten thresholds;
/// 1 if there are neither objects nor detections.
[[nodiscard]] double image_quality(const ImageResult& result);

/// The values of numpy.linspace(0.5, 0.95, 10), bit for bit.
[[nodiscard]] const std::array<double, kThresholds>& overlap_thresholds() noexcept;

/// Returns the counts of one class in one image, at the threshold with index `at`.
[[nodiscard]] HitCounts confident_counts(const ImageResult::OfClass& result, std::int64_t at);

[[nodiscard]] HitCounts operator+(const HitCounts& a, const HitCounts& b) noexcept;

}  // namespace lockstep::detection
