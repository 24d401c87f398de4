// SPDX-License-Identifier: Apache-2.0
// Computes precision-recall curves over all images, and the metrics from them.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "detection/metrics/byte_reader.h"
#include "detection/metrics/coco_eval.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

constexpr std::size_t kRecalls = 101;  // 0, 0.01 .. 1

/// The values of numpy.linspace(low, high, count), bit for bit.
template <std::size_t Count>
std::array<double, Count> linspace(double low, double high) noexcept {
  std::array<double, Count> values{};
  const double step = (high - low) / static_cast<double>(Count - 1);
  for (std::size_t i = 0; i < Count; ++i) values[i] = low + static_cast<double>(i) * step;
  values.back() = high;
  return values;
}

/// One class, over all images.
struct ClassCurve {
  struct Ranked {
    const ImageResult::Found* found;
    std::size_t place;  // index in its image
  };
  std::vector<Ranked> ranked;  // best score first; ties by image, then by place
  std::array<std::int64_t, kAreas> truths{};
  HitCounts confident;
};

std::map<std::int64_t, ClassCurve> curves_of(const std::vector<ImageResult>& results) {
  std::map<std::int64_t, ClassCurve> curves;
  for (const ImageResult& image : results) {
    for (const ImageResult::OfClass& result : image.classes) {
      ClassCurve& curve = curves[result.label];
      for (std::size_t i = 0; i < result.found.size(); ++i) curve.ranked.push_back({&result.found[i], i});
      for (std::size_t a = 0; a < result.truths.size(); ++a) curve.truths[a] += result.truths[a];
      curve.confident = curve.confident + confident_counts(result, 0);
    }
  }
  for (auto& [label, curve] : curves) {
    std::ranges::stable_sort(curve.ranked, std::greater<>(),
                             [](const ClassCurve::Ranked& one) { return one.found->score; });
  }
  return curves;
}

struct Reading {
  double precision = 0;  // averaged over 101 recalls
  double recall = 0;     // largest recall
};

Reading read_curve(const ClassCurve& curve, std::size_t area, std::size_t threshold, std::size_t most) {
  static const std::array<double, kRecalls> places = linspace<kRecalls>(0, 1);
  const std::uint64_t bit = std::uint64_t{1} << (area * kThresholds + threshold);
  const auto truths = static_cast<double>(curve.truths[area]);
  double hits = 0;
  double misses = 0;
  std::vector<double> recalls;
  std::vector<double> precisions;
  for (const ClassCurve::Ranked& one : curve.ranked) {
    if (one.place >= most) continue;
    hits += (one.found->hits & bit) != 0 ? 1 : 0;
    misses += (one.found->misses & bit) != 0 ? 1 : 0;
    recalls.push_back(hits / truths);
    precisions.push_back(hits / (hits + misses + std::numeric_limits<double>::epsilon()));
  }
  for (std::size_t i = precisions.size(); i > 1; --i)
    precisions[i - 2] = std::max(precisions[i - 2], precisions[i - 1]);
  Reading reading;
  if (!recalls.empty()) reading.recall = recalls.back();
  std::size_t at = 0;
  for (const double place : places) {
    while (at < recalls.size() && recalls[at] < place) ++at;
    if (at < precisions.size()) reading.precision += precisions[at];
  }
  reading.precision /= static_cast<double>(kRecalls);
  return reading;
}

/// The mean of the added values; -1 if there are none.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  [[nodiscard]] double value() const { return count_ == 0 ? -1 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

using Curves = std::map<std::int64_t, ClassCurve>;

/// The means over all classes at one area range and one limit on detections.
struct Means {
  Mean precision;
  Mean precision50;
  Mean precision75;
  Mean recall;
};

Means means_of(const Curves& curves, std::size_t area, std::size_t most, std::vector<ClassNumbers>* classes = nullptr) {
  Means means;
  for (const auto& [label, curve] : curves) {
    Mean own;
    ClassNumbers numbers{.label = label, .truths = curve.truths[area]};
    for (std::size_t t = 0; t < kThresholds && numbers.truths > 0; ++t) {
      const Reading reading = read_curve(curve, area, t, most);
      means.precision.add(reading.precision);
      means.recall.add(reading.recall);
      own.add(reading.precision);
      if (t == 0) means.precision50.add(numbers.ap50 = reading.precision);
      if (t == kThresholds / 2) means.precision75.add(reading.precision);
    }
    numbers.ap = own.value();
    if (classes != nullptr) classes->push_back(numbers);
  }
  return means;
}

void keep_one_of_each(std::vector<ImageResult>& results) {
  std::ranges::stable_sort(results, {}, &ImageResult::id);
  for (std::size_t i = 1; i < results.size(); ++i) {
    if (results[i].id == results[i - 1].id && results[i] != results[i - 1]) {
      throw InternalError(fmt::format("image {} was evaluated twice with different results", results[i].id));
    }
  }
  const auto same = [](const ImageResult& a, const ImageResult& b) { return a.id == b.id; };
  results.erase(std::unique(results.begin(), results.end(), same), results.end());
}

double ratio(std::int64_t part, std::int64_t whole) noexcept {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

constexpr std::size_t kMaskBytes = 5;  // 40 bits

}  // namespace

const std::array<double, kThresholds>& overlap_thresholds() noexcept {
  static const std::array<double, kThresholds> values = linspace<kThresholds>(0.5, 0.95);
  return values;
}

HitCounts confident_counts(const ImageResult::OfClass& result, std::int64_t at) {
  const std::uint64_t bit = std::uint64_t{1} << at;
  HitCounts counts;
  for (const ImageResult::Found& one : result.found) {
    if (one.score < kConfident) break;
    counts.hits += (one.hits & bit) != 0 ? 1 : 0;
    counts.false_ones += (one.misses & bit) != 0 ? 1 : 0;
  }
  counts.missed = result.truths[0] - counts.hits;
  return counts;
}

HitCounts operator+(const HitCounts& a, const HitCounts& b) noexcept {
  return {a.hits + b.hits, a.false_ones + b.false_ones, a.missed + b.missed};
}

double HitCounts::precision() const noexcept { return ratio(hits, hits + false_ones); }
double HitCounts::recall() const noexcept { return ratio(hits, hits + missed); }
double HitCounts::f1() const noexcept { return ratio(2 * hits, 2 * hits + false_ones + missed); }

std::array<double, 12> CocoNumbers::all() const noexcept {
  return {ap, ap50, ap75, ap_small, ap_medium, ap_large, ar1, ar10, ar100, ar_small, ar_medium, ar_large};
}

CocoNumbers accumulate(std::vector<ImageResult> results) {
  keep_one_of_each(results);
  const Curves curves = curves_of(results);
  CocoNumbers numbers;
  numbers.images = std::ssize(results);
  for (const auto& [label, curve] : curves) numbers.confident = numbers.confident + curve.confident;
  const Means all = means_of(curves, 0, kMostDetections, &numbers.classes);
  const Means small = means_of(curves, 1, kMostDetections);
  const Means medium = means_of(curves, 2, kMostDetections);
  const Means large = means_of(curves, 3, kMostDetections);
  numbers.ap = all.precision.value();
  numbers.ap50 = all.precision50.value();
  numbers.ap75 = all.precision75.value();
  numbers.ap_small = small.precision.value();
  numbers.ap_medium = medium.precision.value();
  numbers.ap_large = large.precision.value();
  numbers.ar1 = means_of(curves, 0, 1).recall.value();
  numbers.ar10 = means_of(curves, 0, 10).recall.value();
  numbers.ar100 = all.recall.value();
  numbers.ar_small = small.recall.value();
  numbers.ar_medium = medium.recall.value();
  numbers.ar_large = large.recall.value();
  return numbers;
}

std::string coco_text(const CocoNumbers& numbers) {
  struct Line {
    const char* overlap;
    const char* area;
    int most;
  };
  constexpr std::array<Line, 12> kLines{{{"0.50:0.95", "all", 100},
                                         {"0.50", "all", 100},
                                         {"0.75", "all", 100},
                                         {"0.50:0.95", "small", 100},
                                         {"0.50:0.95", "medium", 100},
                                         {"0.50:0.95", "large", 100},
                                         {"0.50:0.95", "all", 1},
                                         {"0.50:0.95", "all", 10},
                                         {"0.50:0.95", "all", 100},
                                         {"0.50:0.95", "small", 100},
                                         {"0.50:0.95", "medium", 100},
                                         {"0.50:0.95", "large", 100}}};
  const auto values = numbers.all();
  std::string text;
  for (std::size_t i = 0; i < kLines.size(); ++i) {
    const auto& [overlap, area, most] = kLines[i];
    const bool precision = i < 6;
    fmt::format_to(std::back_inserter(text), " {:<18} {} @[ IoU={:<9} | area={:>6} | maxDets={:>3} ] = {:0.3f}\n",
                   precision ? "Average Precision" : "Average Recall", precision ? "(AP)" : "(AR)", overlap, area, most,
                   values[i]);
  }
  return text;
}

std::string to_bytes(const std::vector<ImageResult>& results) {
  std::string bytes;
  for (const ImageResult& result : results) {
    append_bytes(bytes, result.id);
    append_bytes(bytes, static_cast<std::uint32_t>(result.classes.size()));
    for (const ImageResult::OfClass& entry : result.classes) {
      append_bytes(bytes, entry.label);
      for (const std::uint32_t count : entry.truths) append_bytes(bytes, count);
      append_bytes(bytes, static_cast<std::uint32_t>(entry.found.size()));
      for (const ImageResult::Found& one : entry.found) {
        append_bytes(bytes, one.score);
        append_bytes(bytes, one.hits, kMaskBytes);
        append_bytes(bytes, one.misses, kMaskBytes);
      }
    }
  }
  return bytes;
}

std::vector<ImageResult> from_bytes(std::string_view bytes) {
  std::vector<ImageResult> results;
  for (ByteReader reader(bytes); !reader.done();) {
    ImageResult& result = results.emplace_back();
    result.id = reader.take<std::int64_t>();
    const auto classes = reader.take<std::uint32_t>();
    for (std::uint32_t c = 0; c < classes; ++c) {
      ImageResult::OfClass& entry = result.classes.emplace_back();
      entry.label = reader.take<std::int64_t>();
      for (std::uint32_t& count : entry.truths) count = reader.take<std::uint32_t>();
      const auto found = reader.take<std::uint32_t>();
      for (std::uint32_t i = 0; i < found; ++i) {
        ImageResult::Found& one = entry.found.emplace_back();
        one.score = reader.take<double>();
        one.hits = reader.take<std::uint64_t>(kMaskBytes);
        one.misses = reader.take<std::uint64_t>(kMaskBytes);
      }
    }
  }
  return results;
}

}  // namespace lockstep::detection
