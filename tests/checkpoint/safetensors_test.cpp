// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/safetensors.h"

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

#include "checkpoint/states.h"
#include "lockstep/base/error.h"
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
  EXPECT_THAT(refusal(std::string("\xff")), HasSubstr("'odd': it holds text that is no UTF-8"));
  EXPECT_THAT(refusal(at::ones({1}), "\xc3\x28"), HasSubstr("no UTF-8"));
  EXPECT_THAT(refusal(at::ones({1}), "__metadata__"), HasSubstr("'__metadata__' is taken"));
}

/// A file of foreign making: the JSON as it is, then the data.
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
              HasSubstr("element 1 of 'a' is no boolean"));
  EXPECT_THAT(reading(R"({"__metadata__":{"scalar.step":"[1]"}})", ""),
              HasSubstr("the value of 'step' is a JSON array"));
  EXPECT_THAT(reading(R"({"__metadata__":{"scalar.step":"18446744073709551615"}})", ""), HasSubstr("above 64 bits"));
  EXPECT_THAT(reading(R"({"__metadata__":{"scalar.a":"1"},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", ""),
              HasSubstr("'a' is both a tensor and a plain value"));
}

TEST(Safetensors, AMissingFileIsADataError) {
  const test::TempDir folder;
  EXPECT_THROW((void)read_safetensors(files(), folder / "none"), DataError);
}

}  // namespace safetensors_test
}  // namespace lockstep
