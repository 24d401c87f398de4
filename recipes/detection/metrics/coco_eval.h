// SPDX-License-Identifier: Apache-2.0
// COCO's evaluation of boxes, in two parts: what one image says, which any rank can find out, and the numbers of all
// images, which needs all their results in one place. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detection {

/// As COCO writes it. Units: pixels.
struct CocoBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct TruthObject {
  CocoBox box;
  std::int64_t label = 0;
  double area = 0;     ///< pixels; decides about small, medium and large
  bool crowd = false;  ///< takes any number of detections, and none of them counts
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

/// Intersection over union; for a crowd over the detection's area alone.
[[nodiscard]] double box_overlap(const CocoBox& found, const CocoBox& truth, bool crowd) noexcept;

inline constexpr std::int64_t kThresholds = 10;      ///< thresholds of the overlap: 0.50, 0.55 .. 0.95
inline constexpr std::int64_t kAreas = 4;            ///< all, small (up to 32^2 pixels), medium, large (from 96^2)
inline constexpr std::size_t kMostDetections = 100;  ///< detections of an image and a class; more are ignored

/// All that the numbers need to know about one image. The bit `area * kThresholds + threshold` of a detection's masks
/// tells what it is there: a hit, a false one, or neither, where it is on a crowd or outside of the area range.
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
    std::vector<Found> found;                    ///< the best first
    bool operator==(const OfClass&) const = default;
  };
  std::int64_t id = 0;
  std::vector<OfClass> classes;  ///< with an object or a detection, by label
  bool operator==(const ImageResult&) const = default;
};

/// Assigns detections to objects as COCOeval does: of each class the 100 best, the best score first (equal ones in the
/// given order), each to the free object with the largest overlap.
/// Throws: DataError naming the image where a box or a score is not finite.
/// Source: pycocotools' COCOeval.evaluateImg.
[[nodiscard]] ImageResult evaluate_image(const ImageTruth& truth, const std::vector<FoundObject>& found);

/// For a message between ranks: 18 bytes a detection.
[[nodiscard]] std::string to_bytes(const std::vector<ImageResult>& results);
/// Throws: InternalError where the bytes are not what to_bytes() made.
[[nodiscard]] std::vector<ImageResult> from_bytes(std::string_view bytes);

/// Detections of at least this score count, at an overlap of 0.5.
inline constexpr double kConfident = 0.5;

struct HitCounts {
  std::int64_t hits = 0;
  std::int64_t false_ones = 0;
  std::int64_t missed = 0;

  [[nodiscard]] double precision() const noexcept;  ///< 0 where there are no detections
  [[nodiscard]] double recall() const noexcept;     ///< 0 where there are no objects
  [[nodiscard]] double f1() const noexcept;
};

struct ClassNumbers {
  std::int64_t label = 0;
  std::int64_t truths = 0;
  double ap = -1;    ///< -1: there is no such object
  double ap50 = -1;  ///<
};

/// -1 where there is no object to find.
struct CocoNumbers {
  double ap = -1;
  double ap50 = -1;
  double ap75 = -1;
  double ap_small = -1;
  double ap_medium = -1;
  double ap_large = -1;
  double ar1 = -1;  ///< recall with at most one detection an image and class
  double ar10 = -1;
  double ar100 = -1;
  double ar_small = -1;
  double ar_medium = -1;
  double ar_large = -1;
  HitCounts confident;                ///< detections of kConfident
  std::vector<ClassNumbers> classes;  ///< with an object or a detection, by label
  std::int64_t images = 0;

  /// In pycocotools' order.
  [[nodiscard]] std::array<double, 12> all() const noexcept;
};

/// The numbers of all images, whatever the order of `results`. Where an image comes twice, because a rank was given
/// some again to have as many as the others, it counts once.
/// Throws: InternalError naming the image where two results of it differ.
/// Source: pycocotools' COCOeval.accumulate and summarize.
[[nodiscard]] CocoNumbers accumulate(std::vector<ImageResult> results);

/// The twelve lines that pycocotools prints.
[[nodiscard]] std::string coco_text(const CocoNumbers& numbers);

/// How good an image came out, 0 .. 1: the F1 of its confident detections, averaged over the ten overlaps; 1 where
/// nothing was there and nothing found.
[[nodiscard]] double image_quality(const ImageResult& result);

/// numpy.linspace(0.5, 0.95, 10), with its bits.
[[nodiscard]] const std::array<double, kThresholds>& overlap_thresholds() noexcept;

/// Returns the counts of one class in one image, at threshold `at`.
[[nodiscard]] HitCounts confident_counts(const ImageResult::OfClass& of, std::int64_t at);

[[nodiscard]] HitCounts operator+(const HitCounts& a, const HitCounts& b) noexcept;

}  // namespace lockstep::detection
