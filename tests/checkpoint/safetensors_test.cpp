// SPDX-License-Identifier: Apache-2.0
// safetensors: round trips, and hostile headers.
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "checkpoint/formats/safetensors_header.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/safetensors.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace safetensors_test {

using test::same_state;
using ::testing::HasSubstr;

FileSystem& files() { return FileSystem::system(); }

StateDict round_trip(const StateDict& state) {
  const test::TempDir folder;
  (void)write_safetensors(files(), folder / "a.safetensors", state);
  return read_safetensors(files(), folder / "a.safetensors");
}

class EveryType : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(EveryType, ComesBackWithTheSameBitsInEveryShape) {
  const auto numbers = at::arange(24, at::kLong);
  StateDict state;
  state["flat"] = numbers.to(GetParam());
  state["cube"] = numbers.reshape({2, 3, 4}).to(GetParam());
  state["scalar"] = numbers[7].to(GetParam());
  state["empty"] = at::empty({0}, GetParam());
  state["empty rows"] = at::empty({3, 0, 2}, GetParam());
  state["one"] = at::ones({1, 1}, GetParam());
  const StateDict back = round_trip(state);
  EXPECT_TRUE(same_state(back, state));
  for (const auto& [name, value] : back) EXPECT_TRUE(std::get<at::Tensor>(value).is_contiguous()) << name;
}

INSTANTIATE_TEST_SUITE_P(Safetensors, EveryType,
                         ::testing::Values(at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                                           at::kShort, at::kChar, at::kByte, at::kBool),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

TEST(Safetensors, SavesAnyStridesRowMajor) {
  const auto base = at::arange(2 * 3 * 4 * 5, at::kFloat).reshape({2, 3, 4, 5});
  StateDict state;
  state["channels last"] = base.contiguous(at::MemoryFormat::ChannelsLast);
  state["transposed"] = base.transpose(1, 3);
  state["every other"] = base.slice(3, 0, 5, 2);
  state["expanded"] = base.slice(0, 0, 1).expand({3, 3, 4, 5});
  state["with an offset"] = base.reshape({120}).slice(0, 7, 20);
  const StateDict back = round_trip(state);
  EXPECT_TRUE(same_state(back, state));
  EXPECT_TRUE(std::get<at::Tensor>(back.at("channels last")).is_contiguous());
}

TEST(Safetensors, KeepsPlainValuesWithTheirTypes) {
  StateDict state;
  state["zero"] = std::int64_t{0};
  state["lowest"] = std::numeric_limits<std::int64_t>::min();
  state["highest"] = std::numeric_limits<std::int64_t>::max();
  state["third"] = 1.0 / 3.0;
  state["whole"] = 2.0;
  state["tiny"] = 5e-324;
  state["large"] = 1.7976931348623157e308;
  state["infinite"] = -std::numeric_limits<double>::infinity();
  state["yes"] = true;
  state["text"] = std::string("a \"quoted\"\n验证码");
  state["empty text"] = std::string();
  EXPECT_TRUE(same_state(round_trip(state), state));
  const auto back = round_trip({{"nan", std::nan("")}, {"minus zero", -0.0}});
  EXPECT_TRUE(std::isnan(std::get<double>(back.at("nan"))));
  EXPECT_TRUE(std::signbit(std::get<double>(back.at("minus zero"))));
}

TEST(Safetensors, KeepsNamesOfAnyUtf8) {
  const auto one = at::ones({2});
  const StateDict state{{"", one}, {"a.b/c d\"\\", one}, {"验证码", one}, {std::string("nul\0in", 6), one}};
  EXPECT_TRUE(same_state(round_trip(state), state));
  EXPECT_TRUE(round_trip({}).empty());
}

TEST(Safetensors, WritesTheSameBytesForTheSameState) {
  const test::TempDir folder;
  const auto state = test::states_of(3).at("model");
  const FileDigest first = write_safetensors(files(), folder / "a", state);
  EXPECT_EQ(write_safetensors(files(), folder / "b", state), first);
  EXPECT_EQ(files().read(folder / "a"), files().read(folder / "b"));
  EXPECT_EQ(first.bytes, files().read(folder / "a").size());
}

TEST(Safetensors, GivesForeignMetadataApart) {
  const test::TempDir folder;
  (void)write_safetensors(files(), folder / "a", {{"step", std::int64_t{4}}}, {{"format", "pt"}});
  SafetensorsMetadata metadata;
  const StateDict state = read_safetensors(files(), folder / "a", &metadata);
  EXPECT_EQ(state.size(), 1U);
  EXPECT_EQ(metadata, (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_THROW((void)write_safetensors(files(), folder / "b", {}, {{"scalar.x", "1"}}), UsageError);
}

TEST(Safetensors, NamesTheEntryThatCannotBeSaved) {
  const auto refusal = [](const StateValue& value, const std::string& name = "odd") -> std::string {
    const test::TempDir folder;
    try {
      (void)write_safetensors(files(), folder / "a", {{name, value}});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_THAT(refusal(at::Tensor()), HasSubstr("'odd': the tensor is undefined"));
  EXPECT_THAT(refusal(at::ones({2, 2}).to_sparse()), HasSubstr("'odd': the tensor is not dense"));
  EXPECT_THAT(refusal(at::complex(at::ones({2}), at::ones({2}))), HasSubstr("'odd': safetensors has no type for"));
  EXPECT_THAT(refusal(std::string("\xff")), HasSubstr("'odd': it holds text that is not UTF-8"));
  EXPECT_THAT(refusal(at::ones({1}), "\xc3\x28"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(at::ones({1}), "__metadata__"), HasSubstr("'__metadata__' is taken"));
}

/// Reads a foreign file: the JSON as is, then the data.
std::string reading(const std::string& json, const std::string& data) {
  const test::TempDir folder;
  std::string length(8, '\0');
  for (unsigned i = 0; i < 8; ++i) length[i] = static_cast<char>((json.size() >> (8 * i)) & 0xFFU);
  auto file = files().create(folder / "foreign");
  const std::string content = length + json + data;
  file->append(content.data(), content.size());
  try {
    return fmt::format("{} entries", read_safetensors(files(), folder / "foreign").size());
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Safetensors, ReadsTensorsThatAreNotAligned) {
  EXPECT_EQ(reading(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
                    std::string(9, '\1')),
            "2 entries");
}

TEST(Safetensors, RefusesForeignValuesThatWouldMislead) {
  EXPECT_THAT(reading(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", std::string("\1\2", 2)),
              HasSubstr("element 1 of 'a' is not a boolean"));
  EXPECT_THAT(reading(R"({"__metadata__":{"scalar.step":"[1]"}})", ""),
              HasSubstr("the value of 'step' is a JSON array"));
  EXPECT_THAT(reading(R"({"__metadata__":{"scalar.step":"18446744073709551615"}})", ""),
              HasSubstr("more than 64 bits"));
  EXPECT_THAT(reading(R"({"__metadata__":{"scalar.a":"1"},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", ""),
              HasSubstr("'a' is both a tensor and a plain value"));
}

TEST(Safetensors, AMissingFileIsADataError) {
  const test::TempDir folder;
  EXPECT_THROW((void)read_safetensors(files(), folder / "none"), DataError);
}

}  // namespace safetensors_test
}  // namespace lockstep

namespace lockstep::checkpoint {
namespace safetensors_test {

using ::testing::HasSubstr;

// Hostile headers: any bytes give a clear message and no out-of-bounds access.

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  for (unsigned i = 0; i < 8; ++i) file[i] = static_cast<char>((length >> (8 * i)) & 0xFFU);
  return file + rest;
}

/// The parser's verdict on `json` followed by `data_bytes` bytes; "fine" if it accepts it.
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
  EXPECT_THAT(parse_safetensors_header("").error(), HasSubstr("0 bytes are too few for a safetensors file"));
  EXPECT_THAT(parse_safetensors_header("1234567").error(), HasSubstr("7 bytes"));
  EXPECT_THAT(parse_safetensors_header(with_length(3, "{}")).error(), HasSubstr("cut short"));
  EXPECT_THAT(parse_safetensors_header(with_length(kMaxHeaderBytes + 1, "{}")).error(),
              HasSubstr("the limit is 100000000"));
  EXPECT_THAT(parse_safetensors_header(with_length(UINT64_MAX, "{}")).error(), HasSubstr("the limit is 100000000"));
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
  EXPECT_THAT(verdict("{"), HasSubstr("not valid JSON (error at byte"));
  EXPECT_THAT(verdict("{}{}"), HasSubstr("not valid JSON (error at byte"));
  EXPECT_THAT(verdict("{\"\xff\":1}"), HasSubstr("not valid JSON (error at byte"));
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
              HasSubstr("'a' occurs twice"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","dtype":"F32"}})"), HasSubstr("'dtype' of 'a' occurs twice"));
  EXPECT_THAT(verdict(R"({"__metadata__":{"k":"1","k":"2"}})"), HasSubstr("metadata 'k' occurs twice"));
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
      (void)parse_safetensors_header(bad);  // the sanitizers catch any out-of-bounds read
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

}  // namespace safetensors_test
}  // namespace lockstep::checkpoint
