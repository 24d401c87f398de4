// SPDX-License-Identifier: Apache-2.0
// COCO's numbers, and the files its tools read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "detection/metrics/coco_eval.h"
#include "detection/metrics/coco_results.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sample_random.h"
#include "support/fault_of.h"

namespace lockstep::detection {
namespace detection_coco_eval_test {

using nlohmann::json;
using test::fault_of;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// COCO's numbers against an evaluator written straight from the definition, and cases computed by hand: crowds, ties,
// empty images, areas, more than 100 detections.

struct ImageCase {
  ImageTruth truth;
  std::vector<FoundObject> found;
};
using Cases = std::vector<ImageCase>;

std::vector<ImageResult> results_of(const Cases& cases) {
  std::vector<ImageResult> results;
  for (const ImageCase& one : cases) results.push_back(evaluate_image(one.truth, one.found));
  return results;
}

CocoNumbers numbers_of(const Cases& cases) { return accumulate(results_of(cases)); }

/// Computes one of COCO's numbers the slow way: it keeps nothing between classes, areas and thresholds, and searches
/// all candidates for the best match and the best precision.
class ByDefinition {
 public:
  explicit ByDefinition(Cases cases) : cases_(std::move(cases)) {
    std::ranges::sort(cases_, {}, [](const ImageCase& one) { return one.truth.id; });
    for (const ImageCase& one : cases_) {
      for (const TruthObject& object : one.truth.objects) labels_.insert(object.label);
    }
  }

  [[nodiscard]] std::array<double, 12> all() const {
    constexpr std::array<double, 4> kLow{0, 0, 1024, 9216};
    constexpr std::array<double, 4> kHigh{1e10, 1024, 9216, 1e10};
    std::array<double, 12> values{};
    for (std::size_t a = 0; a < 4; ++a) {
      const Area area{kLow[a], kHigh[a]};
      values[a == 0 ? 0 : a + 2] = mean({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, area, 100, true);
      values[a + 8] = mean({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, area, 100, false);
    }
    const Area any{0, 1e10};
    values[1] = mean({0}, any, 100, true);
    values[2] = mean({5}, any, 100, true);
    values[6] = mean({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, any, 1, false);
    values[7] = mean({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, any, 10, false);
    return values;
  }

 private:
  struct Area {
    double low;
    double high;
    [[nodiscard]] bool holds(double area) const { return low <= area && area <= high; }
  };
  enum class Verdict { kHit, kFalse, kNeither };
  struct Judged {
    double score;
    std::size_t image;
    std::size_t rank;
    Verdict verdict;
  };

  [[nodiscard]] double mean(const std::vector<int>& steps, const Area& area, std::size_t most, bool precision) const {
    double sum = 0;
    double count = 0;
    for (const std::int64_t label : labels_) {
      for (const int step : steps) {
        const auto value = one(label, 0.5 + 0.05 * step, area, most, precision);
        if (!value) continue;
        sum += *value;
        ++count;
      }
    }
    return count == 0 ? -1 : sum / count;
  }

  [[nodiscard]] std::optional<double> one(std::int64_t label, double threshold, const Area& area, std::size_t most,
                                          bool precision) const {
    std::vector<Judged> judged;
    double truths = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      for (const TruthObject& object : cases_[i].truth.objects) {
        truths += object.label == label && !object.crowd && area.holds(object.area) ? 1 : 0;
      }
      judge(i, label, threshold, area, judged);
    }
    if (truths == 0) return std::nullopt;
    std::erase_if(judged, [&](const Judged& which) { return which.rank >= most; });
    std::ranges::sort(judged, {},
                      [](const Judged& which) { return std::tuple(-which.score, which.image, which.rank); });
    if (!precision) {
      return static_cast<double>(std::ranges::count(judged, Verdict::kHit, &Judged::verdict)) / truths;
    }
    double sum = 0;
    // numpy's 0.35 is 35 * 0.01, which is more than 35 / 100: so a recall of 7 / 20 does not reach it.
    for (int place = 0; place <= 100; ++place) sum += best_precision(judged, truths, place * 0.01);
    return sum / 101;
  }

  /// The best precision among the points of the list with at least this recall.
  [[nodiscard]] static double best_precision(const std::vector<Judged>& judged, double truths, double recall) {
    double best = 0;
    double hits = 0;
    double all = 0;
    for (const Judged& which : judged) {
      hits += which.verdict == Verdict::kHit ? 1 : 0;
      all += which.verdict == Verdict::kNeither ? 0 : 1;
      if (hits / truths >= recall && all > 0) best = std::max(best, hits / all);
    }
    return best;
  }

  void judge(std::size_t image, std::int64_t label, double threshold, const Area& area,
             std::vector<Judged>& judged) const {
    const ImageCase& one = cases_[image];
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < one.found.size(); ++i) {
      if (one.found[i].label == label) order.emplace_back(-one.found[i].score, i);
    }
    std::ranges::sort(order);
    std::set<std::size_t> free;
    for (std::size_t k = 0; k < one.truth.objects.size(); ++k) {
      if (one.truth.objects[k].label == label) free.insert(k);
    }
    for (std::size_t rank = 0; rank < std::min<std::size_t>(order.size(), 100); ++rank) {
      const FoundObject& detection = one.found[order[rank].second];
      // Prefers countable objects, then a larger overlap; of equal ones, takes the last.
      std::optional<std::tuple<bool, double, std::size_t>> best;
      for (const std::size_t k : free) {
        const TruthObject& object = one.truth.objects[k];
        const double overlap = overlap_of(detection.box, object.box, object.crowd);
        if (overlap < threshold) continue;
        best = std::max(best, std::optional(std::tuple(!object.crowd && area.holds(object.area), overlap, k)));
      }
      Verdict verdict = area.holds(detection.box.width * detection.box.height) ? Verdict::kFalse : Verdict::kNeither;
      if (best) {
        const auto& [counts, overlap, which] = *best;
        verdict = counts ? Verdict::kHit : Verdict::kNeither;
        if (!one.truth.objects[which].crowd) free.erase(which);
      }
      judged.push_back({detection.score, image, rank, verdict});
    }
  }

  [[nodiscard]] static double overlap_of(const CocoBox& a, const CocoBox& b, bool crowd) {
    const auto shared = [](double a1, double a2, double b1, double b2) {
      return std::max(0.0, std::min(a2, b2) - std::max(a1, b1));
    };
    const double both =
        shared(a.x, a.x + a.width, b.x, b.x + b.width) * shared(a.y, a.y + a.height, b.y, b.y + b.height);
    const double own = a.width * a.height;
    return both == 0 ? 0 : both / (crowd ? own : own + b.width * b.height - both);
  }

  Cases cases_;
  std::set<std::int64_t> labels_;
};

CocoBox any_box(SampleRandom& random) {
  const double side = std::exp(random.uniform(std::log(8.0), std::log(200.0)));
  return {random.uniform(0, 300), random.uniform(0, 300), side * random.uniform(0.6, 1.6), side};
}

CocoBox near(const CocoBox& box, double share, SampleRandom& random) {
  const double w = share * box.width;
  const double h = share * box.height;
  return {box.x + random.uniform(-w, w), box.y + random.uniform(-h, h), box.width + random.uniform(-w, w),
          box.height + random.uniform(-h, h)};
}

ImageCase any_image(std::int64_t id, SampleRandom& random) {
  ImageCase one;
  one.truth.id = id;
  // Few distinct scores, so there are many ties, also between images.
  const auto score = [&] { return static_cast<double>(random.between(1, 20)) / 20; };
  const std::int64_t objects = random.chance(0.2) ? 0 : random.between(1, 14);
  for (std::int64_t k = 0; k < objects; ++k) {
    const CocoBox box = any_box(random);
    const auto label = static_cast<std::int64_t>(random.below(4));
    const bool crowd = random.chance(0.15);
    one.truth.objects.push_back({box, label, box.width * box.height * random.uniform(0.5, 1.0), crowd});
    for (std::int64_t i = random.between(0, crowd ? 5 : 2); i > 0; --i) {
      one.found.push_back({near(box, 0.15, random), random.chance(0.9) ? label : 2, score()});
    }
  }
  for (std::int64_t i = random.between(0, 10); i > 0; --i) {
    one.found.push_back({any_box(random), static_cast<std::int64_t>(random.below(5)), score()});
  }
  // Exact copies create ties between overlaps as well.
  if (!one.found.empty() && random.chance(0.3)) one.found.push_back(one.found.front());
  if (!one.truth.objects.empty() && random.chance(0.3)) one.truth.objects.push_back(one.truth.objects.front());
  if (random.chance(0.1)) {
    for (int i = 0; i < 130; ++i) one.found.push_back({near(any_box(random), 0.5, random), 1, score()});
  }
  return one;
}

TEST(CocoNumbers, EqualTheDefinitionOnFiftyRandomSets) {
  std::array<double, 12> sum{};
  for (std::uint64_t set = 0; set < 50; ++set) {
    SampleRandom random(set);
    Cases cases;
    for (std::int64_t i = random.between(1, 12); i > 0; --i) cases.push_back(any_image(i * 7 % 13, random));
    const auto expected = ByDefinition(cases).all();
    const auto numbers = numbers_of(cases).all();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_NEAR(numbers[i], expected[i], 1e-6) << "number " << i << " of set " << set;
      sum[i] += numbers[i];
    }
  }
  EXPECT_THAT(sum, Each(AllOf(::testing::Gt(2.0), ::testing::Lt(45.0)))) << "the sets are not trivial";
}

TEST(CocoNumbers, DoNotDependOnTheOrderOfImages) {
  SampleRandom random(3);
  Cases cases;
  for (std::int64_t i = 0; i < 12; ++i) cases.push_back(any_image(i, random));
  const CocoNumbers forwards = numbers_of(cases);
  std::ranges::reverse(cases);
  EXPECT_EQ(numbers_of(cases).all(), forwards.all());
}

const CocoBox kBox{10, 20, 40, 30};  // 1,200 square pixels: medium

TEST(CocoNumbers, AreOneWhereEverythingIsFoundAndMinusOneWhereNothingIsThere) {
  const CocoNumbers numbers = numbers_of({{{1, {{kBox, 2, 1200, false}}}, {{kBox, 2, 0.9}}}});
  const std::array<double, 12> expected{1, 1, 1, -1, 1, -1, 1, 1, 1, -1, 1, -1};
  EXPECT_THAT(numbers.all(), Pointwise(DoubleNear(1e-12), expected));
  EXPECT_THAT(numbers_of({{{1, {}}, {{kBox, 2, 0.9}}}}).all(), Each(-1));
  EXPECT_THAT(accumulate({}).all(), Each(-1));
}

TEST(CocoNumbers, ACrowdTakesManyDetectionsAndNoneOfThemCounts) {
  const CocoBox inside{15, 25, 10, 10};
  const Cases cases{{{1, {{kBox, 0, 1200, true}, {{200, 200, 50, 50}, 0, 2500, false}}},
                     {{inside, 0, 0.9}, {inside, 0, 0.8}, {{200, 200, 50, 50}, 0, 0.7}}}};
  const CocoNumbers numbers = numbers_of(cases);
  EXPECT_DOUBLE_EQ(numbers.ap, 1.0);
  EXPECT_EQ(numbers.confident.hits, 1);
  EXPECT_EQ(numbers.confident.false_ones, 0);
  EXPECT_EQ(numbers.confident.missed, 0);
  // The same box as a separate object: two false detections come first.
  Cases counted = cases;
  counted[0].truth.objects[0].crowd = false;
  EXPECT_LT(numbers_of(counted).ap, 0.2);
}

TEST(CocoNumbers, EqualScoresKeepTheOrderOfImages) {
  // The false one is in the image with the higher id, so the hit comes first.
  const Cases good{{{2, {}}, {{kBox, 0, 0.5}}}, {{1, {{kBox, 0, 1200, false}}}, {{kBox, 0, 0.5}}}};
  EXPECT_DOUBLE_EQ(numbers_of(good).ap, 1.0);
  const Cases bad{{{0, {}}, {{kBox, 0, 0.5}}}, {{1, {{kBox, 0, 1200, false}}}, {{kBox, 0, 0.5}}}};
  EXPECT_DOUBLE_EQ(numbers_of(bad).ap, 0.5);
}

TEST(CocoNumbers, CountPrecisionRecallAndF1OfConfidentDetections) {
  const CocoBox other{100, 100, 40, 40};
  const Cases cases{{{1, {{kBox, 0, 1200, false}, {other, 1, 1600, false}}},
                     {{kBox, 0, 0.9}, {other, 1, 0.49}, {{300, 300, 9, 9}, 0, 0.5}, {{300, 1, 9, 9}, 1, 0.51}}},
                    {{2, {{kBox, 0, 1200, false}}}, {{kBox, 0, 0.6}}}};
  const CocoNumbers numbers = numbers_of(cases);
  EXPECT_EQ(numbers.confident.hits, 2);
  EXPECT_EQ(numbers.confident.false_ones, 2);
  EXPECT_EQ(numbers.confident.missed, 1);
  EXPECT_DOUBLE_EQ(numbers.confident.precision(), 0.5);
  EXPECT_DOUBLE_EQ(numbers.confident.recall(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(numbers.confident.f1(), 4.0 / 7);
  EXPECT_EQ(numbers.images, 2);
}

TEST(CocoNumbers, TellEachClass) {
  const Cases cases{
      {{1, {{kBox, 0, 1200, false}, {{100, 100, 40, 40}, 3, 1600, false}}}, {{kBox, 0, 0.9}, {kBox, 5, 0.9}}}};
  const CocoNumbers numbers = numbers_of(cases);
  ASSERT_EQ(numbers.classes.size(), 3U);
  EXPECT_EQ(numbers.classes[0].label, 0);
  EXPECT_DOUBLE_EQ(numbers.classes[0].ap, 1);
  EXPECT_EQ(numbers.classes[1].label, 3);
  EXPECT_DOUBLE_EQ(numbers.classes[1].ap50, 0);
  EXPECT_EQ(numbers.classes[2].label, 5);
  EXPECT_DOUBLE_EQ(numbers.classes[2].ap, -1);
  EXPECT_DOUBLE_EQ(numbers.ap, 0.5);
}

TEST(Accumulate, CountsAnImageThatComesTwiceOnceAndRefusesTwoDifferentOnes) {
  SampleRandom random(8);
  Cases cases;
  for (std::int64_t i = 0; i < 9; ++i) cases.push_back(any_image(i, random));
  std::vector<ImageResult> results = results_of(cases);
  const CocoNumbers once = accumulate(results);
  results.push_back(results[0]);
  results.push_back(results[4]);
  const CocoNumbers padded = accumulate(results);
  EXPECT_EQ(padded.all(), once.all());
  EXPECT_EQ(padded.images, 9);
  EXPECT_EQ(padded.confident.missed, once.confident.missed);
  results.back().classes.clear();
  results.back().id = 0;
  EXPECT_THAT(fault_of<InternalError>([&] { (void)accumulate(results); }), HasSubstr("image 0 was evaluated twice"));
}

TEST(ImageResult, SurvivesItsWayThroughBytes) {
  SampleRandom random(5);
  Cases cases;
  for (std::int64_t i = 0; i < 20; ++i) cases.push_back(any_image(i - 3, random));
  const std::vector<ImageResult> results = results_of(cases);
  const std::string bytes = to_bytes(results);
  EXPECT_EQ(from_bytes(bytes), results);
  EXPECT_TRUE(from_bytes("").empty());
  EXPECT_THROW((void)from_bytes(std::string_view(bytes).substr(0, bytes.size() - 1)), InternalError);
  std::size_t detections = 0;
  for (const ImageCase& one : cases) detections += one.found.size();
  EXPECT_LE(bytes.size(), 18 * detections + 20 * (12 + 5 * 28));
}

TEST(EvaluateImage, NamesTheImageOfWhatIsNotFinite) {
  const ImageTruth truth{42, {{kBox, 0, 1200, false}}};
  const double nan = std::nan("");
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)evaluate_image(truth, {{kBox, 0, nan}});
              }),
              AllOf(HasSubstr("detection 0 of image 42"), HasSubstr("nan")));
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)evaluate_image(truth, {{kBox, 0, 1}, {{0, 0, INFINITY, 1}, 0, 1}});
              }),
              HasSubstr("detection 1 of image 42"));
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)evaluate_image({7, {{kBox, 0, nan, false}}}, {});
              }),
              HasSubstr("object 0 of image 7"));
}

TEST(EvaluateImage, AnOverlapOfExactlyTheThresholdIsAHit) {
  const ImageTruth truth{1, {{{0, 0, 10, 10}, 0, 100, false}}};
  EXPECT_EQ(evaluate_image(truth, {{{0, 0, 10, 5}, 0, 0.9}}).classes[0].found[0].hits & 1U, 1U);
  EXPECT_EQ(evaluate_image(truth, {{{0, 0, 10, 4.999}, 0, 0.9}}).classes[0].found[0].hits & 1U, 0U);
}

TEST(EvaluateImage, AnAreaOnTheBorderOfTwoRangesCountsInBoth) {
  const auto counts = [](double area) { return evaluate_image({1, {{kBox, 0, area, false}}}, {}).classes[0].truths; };
  EXPECT_THAT(counts(1024), ::testing::ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(counts(9216), ::testing::ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(counts(1023.9), ::testing::ElementsAre(1, 1, 0, 0));
}

TEST(EvaluateImage, KeepsTheHundredBestOfAClass) {
  std::vector<FoundObject> found;
  for (int i = 0; i < 130; ++i) found.push_back({kBox, i < 120 ? 0 : 1, i / 130.0});
  const ImageResult result = evaluate_image({1, {}}, found);
  ASSERT_EQ(result.classes[0].found.size(), 100U);
  EXPECT_DOUBLE_EQ(result.classes[0].found.back().score, 20 / 130.0);
  EXPECT_EQ(result.classes[1].found.size(), 10U);
}

TEST(ImageQuality, IsOneWhereAllIsRightAndFallsWithEveryMistake) {
  const ImageTruth truth{1, {{kBox, 0, 1200, false}, {{100, 100, 40, 40}, 1, 1600, false}}};
  const std::vector<FoundObject> right{{kBox, 0, 0.9}, {{100, 100, 40, 40}, 1, 0.9}};
  EXPECT_DOUBLE_EQ(image_quality(evaluate_image(truth, right)), 1);
  EXPECT_DOUBLE_EQ(image_quality(evaluate_image({1, {}}, {})), 1);
  EXPECT_DOUBLE_EQ(image_quality(evaluate_image(truth, {})), 0);
  EXPECT_DOUBLE_EQ(image_quality(evaluate_image({1, {}}, right)), 0);
  auto shifted = right;
  shifted[0].box.x += 8;
  const double moved = image_quality(evaluate_image(truth, shifted));
  EXPECT_GT(moved, 0.6);
  EXPECT_LT(moved, 0.9);
  shifted[0].label = 4;
  EXPECT_LT(image_quality(evaluate_image(truth, shifted)), moved);
}

TEST(CocoText, HasPycocotoolsTwelveLines) {
  CocoNumbers numbers;
  numbers.ap = 0.4286;
  numbers.ar_large = 0.75;
  EXPECT_EQ(coco_text(numbers),
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.429\n"
            " Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = -1.000\n"
            " Average Precision  (AP) @[ IoU=0.75      | area=   all | maxDets=100 ] = -1.000\n"
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000\n"
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = -1.000\n"
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = -1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = -1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets= 10 ] = -1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = -1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = -1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = 0.750\n");
}

TEST(CocoNumbers, AThousandImagesWithAHundredDetectionsAreQuick) {
  Cases cases;
  SampleRandom random(1);
  for (std::int64_t i = 0; i < 1000; ++i) {
    ImageCase one;
    one.truth.id = i;
    for (int k = 0; k < 15; ++k) {
      const CocoBox box = any_box(random);
      one.truth.objects.push_back({box, static_cast<std::int64_t>(random.below(8)), box.width * box.height, false});
      one.found.push_back({near(box, 0.1, random), one.truth.objects.back().label, random.uniform()});
    }
    while (one.found.size() < 100) {
      one.found.push_back({any_box(random), static_cast<std::int64_t>(random.below(8)), random.uniform()});
    }
    cases.push_back(std::move(one));
  }
  const TimePoint begin = SystemClock::instance().now();
  const CocoNumbers numbers = numbers_of(cases);
  const double seconds = Seconds(SystemClock::instance().now() - begin).count();
  EXPECT_GT(numbers.ap50, 0.1);
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 10) << "below 1 s on a quiet processor";
}

// Detections in files for COCO's tools, and as messages between ranks.

std::vector<ImageDetections> two_images() {
  return {{.index = 1, .id = 42, .found = {{.box = {10, 20, 30, 40}, .label = 1, .score = 0.75}}},
          {.index = 0, .id = 7, .found = {{.box = {1, 2, 3, 4}, .label = 0, .score = 0.5}, {}}}};
}

TEST(DetectionResults, AreRowsWithTheIdsOfTheSet) {
  const json rows = json::parse(coco_results(two_images(), {3, 90}));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0], json::parse(R"({"image_id": 42, "category_id": 90, "bbox": [10, 20, 30, 40], "score": 0.75})"));
  EXPECT_EQ(rows[1].at("category_id"), 3);
  EXPECT_EQ(json::parse(coco_results({}, {})), json::array());
}

TEST(DetectionResults, OfASetWithoutIdsNameFileAndClass) {
  const json rows = json::parse(coco_results(two_images(), {}, {"a.png", "b \"x\".png"}, {"mug", "cup"}));
  EXPECT_EQ(rows[0].at("category_id"), 1) << "the label";
  EXPECT_EQ(rows[0].at("category"), "cup");
  EXPECT_EQ(rows[0].at("file_name"), "b \"x\".png");
}

TEST(DetectionResults, ComeFromOtherRanksAsTheyAreAndOnce) {
  std::vector<ImageDetections> images = detections_from_bytes(detection_bytes(two_images()));
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0].found[0].box.height, 40);
  EXPECT_EQ(images[0].found[0].score, 0.75);
  images.push_back(images[0]);
  sort_and_unite(images);
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0].id, 7);
  EXPECT_THROW((void)detections_from_bytes(detection_bytes(two_images()).substr(1)), InternalError);
}

TEST(DetectionResults, TheTwelveNumbersStandInCocosOrderAndByName) {
  CocoNumbers numbers;
  numbers.ap = 0.25;
  numbers.ap50 = 0.5;
  numbers.ar_large = 0.75;
  numbers.classes = {{.label = 1, .truths = 4, .ap = 0.25, .ap50 = 0.5}};
  const json text = json::parse(coco_json(numbers, {"mug", "cup"}));
  EXPECT_EQ(text.at("stats").size(), 12U);
  EXPECT_EQ(text.at("stats").at(1), 0.5);
  EXPECT_EQ(text.at("stats").at(11), 0.75);
  EXPECT_EQ(text.at("AP"), 0.25);
  EXPECT_EQ(text.at("ARl"), 0.75);
  EXPECT_EQ(text.at("classes").at(0).at("name"), "cup");
  EXPECT_EQ(text.at("classes").at(0).at("objects"), 4);
}

TEST(DetectionResults, HaveNullForWhatIsNoNumber) {
  auto images = two_images();
  images[0].found[0].box.x = std::numeric_limits<double>::infinity();
  const json rows = json::parse(coco_results(images, {3, 90}));
  EXPECT_EQ(rows[0].at("bbox"), json::parse("[null, 20, 30, 40]"));
  CocoNumbers numbers;
  numbers.ap = std::numeric_limits<double>::quiet_NaN();
  numbers.classes = {{.label = 0, .truths = 4, .ap = numbers.ap, .ap50 = 0.5}};
  const json text = json::parse(coco_json(numbers, {"mug"}));
  EXPECT_TRUE(text.at("AP").is_null());
  EXPECT_TRUE(text.at("stats").at(0).is_null());
  EXPECT_TRUE(text.at("classes").at(0).at("AP").is_null());
}

}  // namespace detection_coco_eval_test
}  // namespace lockstep::detection
