// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "support/temp_dir.h"

namespace lockstep {
namespace json_test {

using nlohmann::json;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string why_not(std::string_view text, const JsonLimits& limits = {}) {
  try {
    (void)parse_json(text, limits);
    return "";
  } catch (const JsonError& error) {
    return error.message();
  }
}

TEST(Json, WhatIsWithinTheLimitsIsReadAsItStands) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2.5, "]]]["], "a": null})"), json::parse(R"({"a": null})"));
  EXPECT_EQ(parse_ordered_json(R"({"b": 1, "a": 2})").begin().key(), "b");
  EXPECT_EQ(parse_json("\xEF\xBB\xBF[1]"), json::parse("[1]"));
  EXPECT_EQ(why_not(repeated("[", 64) + repeated("]", 64)), "");
}

TEST(Json, ADeepTextIsRefusedWithItsPlaceAndTheLimit) {
  const std::string words = "lists and objects are nested more than 64 deep";
  EXPECT_EQ(why_not("\n\n" + repeated("[", 200'000)), "line 3 (byte 67): " + words);
  EXPECT_EQ(why_not(repeated(R"({"a":)", 200'000)), "line 1 (byte 321): " + words);
  EXPECT_TRUE(json_or_null(repeated("[", 200'000) + repeated("]", 200'000)).is_null());
}

TEST(Json, BracketsWithinTextsAreNotCounted) {
  EXPECT_EQ(why_not('"' + repeated("[", 200'000) + '"'), "");
  EXPECT_EQ(why_not(R"("\")" + repeated("[", 200'000) + '"'), "");
  EXPECT_NE(why_not(R"(["\\",)" + repeated("[", 200'000)), "");
}

TEST(Json, ManyValuesAreRefused) {
  EXPECT_EQ(why_not("[" + repeated("[],", 600'000) + "0]"), "line 1 (byte 1500001): more than 1,000,000 values");
  EXPECT_EQ(why_not("{" + repeated("\"a\":0,", 10) + "\"a\":0}", {.values = 5}),
            "line 1 (byte 17): more than 5 values");
}

TEST(Json, PartsAreCountedAloneWhereACallbackTakesThemOneByOne) {
  const std::string list = "[" + repeated("[1,2,3],", 100) + "0]";
  EXPECT_NE(why_not(list, {.values = 10}), "");
  EXPECT_EQ(why_not(list, {.values = 10, .part_depth = 1}), "");
  EXPECT_NE(why_not("[[" + repeated("1,", 20) + "1]]", {.values = 10, .part_depth = 1}), "");
}

TEST(Json, ALongTextIsRefusedWithBothSizes) {
  EXPECT_EQ(why_not("[1, 2, 3]", {.bytes = 5}), "it has 9 B; JSON of at most 5 B is read");
}

TEST(Json, WhatIsNoJsonHasItsPlace) {
  EXPECT_EQ(why_not("{\n\"a\": x}"), "line 2 (byte 8): no JSON");
  EXPECT_NE(why_not("\"\xff\""), "");
  EXPECT_NE(why_not(""), "");
  EXPECT_EQ(why_not("1e999"), "a number that no double holds");
}

TEST(Json, CborIsBoundedToo) {
  std::string bytes;
  json::to_cbor(json::parse(R"({"a": [1, 2.5, null, "x"]})"), bytes);
  EXPECT_EQ(parse_cbor(bytes), json::parse(R"({"a": [1, 2.5, null, "x"]})"));
  EXPECT_THROW((void)parse_cbor(std::string(200'000, '\x81')), JsonError);
  EXPECT_THROW((void)parse_cbor(std::string(200'000, '\x9f')), JsonError);
  EXPECT_THROW((void)parse_cbor("\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), JsonError);
  EXPECT_THROW((void)parse_cbor(""), JsonError);
}

TEST(Json, AFileIsNamedInItsErrors) {
  const test::TempDir folder;
  write_file_atomically(FileSystem::system(), folder / "a.json", repeated("[", 100));
  try {
    (void)read_json_file(FileSystem::system(), folder / "a.json");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("a.json: line 1 (byte 65): "), std::string::npos) << error.message();
  }
  EXPECT_THROW((void)read_json_file(FileSystem::system(), folder / "a.json", {.bytes = 99}), DataError);
}

}  // namespace json_test
}  // namespace lockstep
