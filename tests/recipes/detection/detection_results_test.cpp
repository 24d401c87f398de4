// SPDX-License-Identifier: Apache-2.0
// What was found, as the files that COCO's tools read and as messages between ranks.
#include "detection/metrics/coco_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace detection_results_test {

using nlohmann::json;

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

}  // namespace detection_results_test
}  // namespace lockstep::detection
