// SPDX-License-Identifier: Apache-2.0
// Hostile headers: whatever the bytes, an answer in words and no access outside them.
#include "checkpoint/formats/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lockstep::checkpoint {
namespace safetensors_header_test {

using ::testing::HasSubstr;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  for (unsigned i = 0; i < 8; ++i) file[i] = static_cast<char>((length >> (8 * i)) & 0xFFU);
  return file + rest;
}

/// What the parser says of `json` followed by `data_bytes` bytes; "fine" where it takes it.
std::string verdict(const std::string& json, std::size_t data_bytes = 0) {
  const auto header = parse_safetensors_header(with_length(json.size(), json + std::string(data_bytes, '\0')));
  return header ? "fine" : header.error();
}

std::string entry(const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
  return R"({"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}";
}

TEST(SafetensorsHeader, TakesAWellFormedOne) {
  EXPECT_EQ(verdict("{}"), "fine");
  EXPECT_EQ(verdict("{}    "), "fine");
  EXPECT_EQ(verdict(R"({"a":)" + entry("2,3", "0,24") + "}", 24), "fine");
  EXPECT_EQ(verdict(R"({"b":)" + entry("1", "4,8") + R"(,"a":)" + entry("1", "0,4") + "}", 8), "fine");
  EXPECT_EQ(verdict(R"({"a":)" + entry("", "0,4") + R"(,"z":)" + entry("0,5", "4,4") + "}", 4), "fine");
  EXPECT_EQ(verdict(R"({"__metadata__":{"k":"v"}})"), "fine");
}

TEST(SafetensorsHeader, RefusesALengthThatTheFileDoesNotHave) {
  EXPECT_THAT(parse_safetensors_header("").error(), HasSubstr("0 bytes are no safetensors file"));
  EXPECT_THAT(parse_safetensors_header("1234567").error(), HasSubstr("7 bytes"));
  EXPECT_THAT(parse_safetensors_header(with_length(3, "{}")).error(), HasSubstr("cut short"));
  EXPECT_THAT(parse_safetensors_header(with_length(kMaxHeaderBytes + 1, "{}")).error(), HasSubstr("at most 100000000"));
  EXPECT_THAT(parse_safetensors_header(with_length(UINT64_MAX, "{}")).error(), HasSubstr("at most 100000000"));
  EXPECT_FALSE(parse_safetensors_header(with_length(0, "")).ok());
}

TEST(SafetensorsHeader, RefusesOverlapsAndHoles) {
  const auto two = [](const std::string& a, const std::string& b, std::size_t bytes) {
    return verdict(R"({"a":)" + entry("2", a) + R"(,"b":)" + entry("2", b) + "}", bytes);
  };
  EXPECT_THAT(two("0,8", "4,12", 12), HasSubstr("an overlap"));
  EXPECT_THAT(two("0,8", "0,8", 8), HasSubstr("an overlap"));
  EXPECT_THAT(two("0,8", "12,20", 20), HasSubstr("a hole"));
  EXPECT_THAT(two("4,12", "12,20", 20), HasSubstr("a hole"));
  EXPECT_THAT(two("0,8", "8,16", 15), HasSubstr("cut short"));
  EXPECT_THAT(two("0,8", "8,16", 17), HasSubstr("left over"));
}

TEST(SafetensorsHeader, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(verdict(R"({"a":)" + entry("2", "0,4") + "}", 4), HasSubstr("takes 8 bytes"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("2", "8,0") + "}", 8), HasSubstr("offsets are 8 to 0"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("4611686018427387904,4", "0,0") + "}"), HasSubstr("too large"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("4294967296,4294967296", "0,0") + "}"), HasSubstr("too large"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("0,4294967296,4294967296", "0,0") + "}"), HasSubstr("too large"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("18446744073709551615", "0,0") + "}"), HasSubstr("size of"));
  EXPECT_FALSE(verdict(R"({"a":)" + entry("184467440737095516160", "0,0") + "}") == "fine");
  EXPECT_THAT(verdict(R"({"a":)" + entry("-1", "0,0") + "}"), HasSubstr("the number -1"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("1.0", "0,4") + "}", 4), HasSubstr("the number 1.0"));
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_THAT(verdict(R"({"a":)" + entry(ones, "0,4") + "}", 4), HasSubstr("too many numbers"));
}

TEST(SafetensorsHeader, RefusesWhatTheGrammarLacks) {
  EXPECT_THAT(verdict("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(verdict(" {}"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(verdict("{"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(verdict("{}{}"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(verdict("{\"\xff\":1}"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(verdict(R"({"a":1})"), HasSubstr("the number 1 at 'a'"));
  EXPECT_THAT(verdict(R"({"a":null})"), HasSubstr("null at 'a'"));
  EXPECT_THAT(verdict(R"({"a":{}})"), HasSubstr("'a' lacks a key"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[]}})"), HasSubstr("'a' lacks a key"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("1", "0") + "}"), HasSubstr("has 1 offsets"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("1", "0,4,8") + "}"), HasSubstr("has 3 offsets"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("[1]", "0,4") + "}"), HasSubstr("a list"));
  EXPECT_THAT(verdict(R"({"a":)" + entry("1", "0,1", "F8_E4M3") + "}", 1), HasSubstr("dtype 'F8_E4M3'"));
  EXPECT_THAT(verdict(R"({"a":{"pickle":"x"}})"), HasSubstr("unknown key 'pickle'"));
  EXPECT_THAT(verdict(R"({"__metadata__":{"a":1}})"), HasSubstr("the number 1 at 'a'"));
  EXPECT_THAT(verdict(R"({"__metadata__":{"a":{}}})"), HasSubstr("an object at 'a'"));
}

TEST(SafetensorsHeader, RefusesKeysThatStandTwice) {
  EXPECT_THAT(verdict(R"({"a":)" + entry("0", "0,0") + R"(,"a":)" + entry("0", "0,0") + "}"),
              HasSubstr("'a' stands twice"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","dtype":"F32"}})"), HasSubstr("'dtype' of 'a' stands twice"));
  EXPECT_THAT(verdict(R"({"__metadata__":{"k":"1","k":"2"}})"), HasSubstr("metadata 'k' stands twice"));
}

TEST(SafetensorsHeader, IsNotHurtByDeepNesting) {
  const std::string deep(200'000, '[');
  EXPECT_THAT(verdict(R"({"a":)" + deep),
              HasSubstr("line 1 (byte 69): lists and objects are nested more than 64 deep"));
  EXPECT_THAT(verdict(R"({"a":{"shape":)" + deep), HasSubstr("nested more than 64 deep"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_NE(verdict(objects), "fine");
}

TEST(SafetensorsHeader, AnswersToEveryMutationOfAGoodFile) {
  std::vector<TensorEntry> tensors{{"w", DType::kF32, {3, 5}, 0, 0}, {"n", DType::kI64, {}, 0, 0}};
  const auto header = layout_safetensors(tensors, {{"k", "v"}});
  ASSERT_TRUE(header.ok());
  const std::string good = header.value() + std::string(68, '\7');
  ASSERT_TRUE(parse_safetensors_header(good).ok());
  std::mt19937 random(1);
  for (std::size_t at = 0; at < header.value().size(); ++at) {
    for (int variant = 0; variant < 20; ++variant) {
      std::string bad = good;
      bad[at] = static_cast<char>(random());
      (void)parse_safetensors_header(bad);  // under the sanitizers this shows any read outside
    }
    EXPECT_FALSE(parse_safetensors_header(good.substr(0, at)).ok());
  }
}

TEST(SafetensorsHeader, LaysTensorsOutAlignedAndWithoutHoles) {
  std::vector<TensorEntry> tensors{{"b", DType::kU8, {3}, 0, 0},
                                   {"a", DType::kF32, {3}, 0, 0},
                                   {"c", DType::kF64, {1}, 0, 0},
                                   {"d", DType::kBF16, {1}, 0, 0}};
  const auto header = layout_safetensors(tensors, {});
  ASSERT_TRUE(header.ok()) << header.error();
  EXPECT_EQ(header.value().size() % 64, 0U);
  for (const TensorEntry& tensor : tensors) EXPECT_EQ(tensor.begin % dtype_bytes(tensor.dtype), 0U) << tensor.name;
  EXPECT_EQ(tensors.back().end, 8U + 12U + 2U + 3U);
  const auto back = parse_safetensors_header(header.value() + std::string(25, '\0'));
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_EQ(back->tensors.front().name, "c");
}

TEST(SafetensorsHeader, DoesNotLayOutTheSameNameTwice) {
  std::vector<TensorEntry> tensors{{"a", DType::kU8, {1}, 0, 0}, {"a", DType::kU8, {1}, 0, 0}};
  EXPECT_THAT(layout_safetensors(tensors, {}).error(), HasSubstr("'a' is taken"));
}

}  // namespace safetensors_header_test
}  // namespace lockstep::checkpoint
