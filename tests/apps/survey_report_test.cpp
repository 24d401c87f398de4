// SPDX-License-Identifier: Apache-2.0
// The counts of `lockstep inspect data`, for people and as JSON.
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "worker/inspect/inspect.h"

namespace lockstep::worker {
namespace survey_report_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Survey blood() {
  Survey survey;
  survey.pictures = 3;
  survey.sizes = {{640, 480}, {320, 240}};
  survey.formats = {{"JPEG", 2}};
  survey.channels = {{3, 2}};
  survey.unlabelled = 2;
  survey.objects = {{0, 30}, {1, 10}};
  survey.objects_a_picture = {25, 15};
  survey.boxes = {{0, 0, 10, 20}, {0, 0, 30, 20}};
  survey.empty_boxes = 1;
  survey.unreadable = {{"torn.jpg", "cannot read image torn.jpg: truncated JPEG (9 bytes)"}};
  return survey;
}

TEST(SurveyReport, ShowsSizesClassesAndWhatCannotBeRead) {
  const std::string text = survey_text("bccd", blood(), {"RBC", "WBC"});
  EXPECT_THAT(text, HasSubstr("bccd: 3 images, 1 unreadable\n"));
  EXPECT_THAT(text, ContainsRegex("width, pixels +320 +480 +640\n"));
  EXPECT_THAT(text, ContainsRegex("objects per image +15 +20 +25\n"));
  EXPECT_THAT(text, ContainsRegex("box width, pixels +10 +20 +30\n"));
  EXPECT_THAT(text, ContainsRegex("RBC +30 +75.0 % +█████"));
  EXPECT_THAT(text, ContainsRegex("WBC +10 +25.0 % +████████\n"));
  EXPECT_THAT(text, HasSubstr("1 boxes without an area"));
  EXPECT_THAT(text, HasSubstr("  cannot read image torn.jpg: truncated JPEG (9 bytes)\n"));
  EXPECT_THAT(text, Not(HasSubstr("without a class")));
}

TEST(SurveyReport, ShowsWhatMasksHold) {
  Survey survey = blood();
  survey.maps = 2;
  survey.pixels = {{0, 300}, {1, 50}, {255, 50}};
  const std::string text = survey_text("cells", survey, {"ground", "cell"});
  EXPECT_THAT(text, ContainsRegex("ground +300 +75.0 %"));
  EXPECT_THAT(text, ContainsRegex("cell +50 +12.5 %"));
  EXPECT_THAT(text, ContainsRegex("255 .none. +50 +12.5 %"));
  EXPECT_EQ(nlohmann::json::parse(survey_json("cells", survey, {"ground"}))["pixels"]["ground"], 300);
}

TEST(SurveyReport, EndsWithRemarksAndCountsTurnedPictures) {
  Survey survey = blood();
  survey.turned = 4;
  survey.as_stored = 2;
  const std::string text = survey_text("bccd", survey, {}, {"3 of 9 labels do not fit"});
  EXPECT_THAT(text, HasSubstr("4 images turned upright"));
  EXPECT_THAT(text, HasSubstr("2 images left lying"));
  EXPECT_TRUE(text.ends_with("\n3 of 9 labels do not fit\n")) << text;
  const auto json = nlohmann::json::parse(survey_json("bccd", survey, {}, {"a remark"}));
  EXPECT_EQ(json["turned"], 4);
  EXPECT_EQ(json["remarks"][0], "a remark");
}

TEST(SurveyReport, SaysTheSameAsJson) {
  const auto json = nlohmann::json::parse(survey_json("bccd", blood(), {"RBC"}));
  EXPECT_EQ(json["pictures"], 3);
  EXPECT_EQ(json["width"]["median"], 480);
  EXPECT_EQ(json["objects"]["RBC"], 30);
  EXPECT_EQ(json["objects"]["1"], 10);
  EXPECT_EQ(json["channels"]["3"], 2);
  EXPECT_EQ(json["unreadable"][0]["name"], "torn.jpg");
}

TEST(SurveyReport, OfNothingIsShort) {
  const std::string text = survey_text("empty", {}, {});
  EXPECT_THAT(text, HasSubstr("empty: 0 images, all readable"));
  EXPECT_THAT(text, Not(HasSubstr("width")));
}

}  // namespace survey_report_test
}  // namespace lockstep::worker
