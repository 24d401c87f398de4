// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/pickle_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/pickle_bytes.h"
#include "checkpoint/torch/pickle_write.h"

namespace lockstep::checkpoint {
namespace pickle_parse_test {

using test::pickle_of;
using test::pickled_integer;
using test::pickled_name;
using test::pickled_tensor;
using test::pickled_text;
using ::testing::HasSubstr;

std::string refusal(const std::string& bytes) {
  const auto pickle = parse_pickle(bytes);
  return pickle ? "taken" : pickle.error();
}

std::string repeated(const std::string& bytes, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += bytes;
  return all;
}

TEST(Pickle, ReadsWhatItsWriterWrites) {
  PickleWriter writer;
  writer.begin_dict();
  writer.add_text("list");
  writer.begin_list();
  writer.add_none();
  writer.add_bool(true);
  writer.add_integer(-5);
  writer.add_integer(INT64_MIN);
  writer.add_real(0.1);
  writer.end_list();
  writer.add_integer(3);
  writer.add_tensor({0, ElementType::kBF16, 0, {2, 3}, {3, 1}}, 6);
  writer.end_dict();
  const auto pickle = parse_pickle(writer.finish());
  ASSERT_TRUE(pickle) << pickle.error();
  const PickleNode& dict = pickle->nodes[pickle->root];
  ASSERT_EQ(dict.items.size(), 4U);
  const PickleNode& list = pickle->nodes[dict.items[1]];
  ASSERT_EQ(list.items.size(), 5U);
  EXPECT_EQ(pickle->nodes[list.items[0]].kind, PickleKind::kNone);
  EXPECT_EQ(pickle->nodes[list.items[1]].kind, PickleKind::kBool);
  EXPECT_EQ(pickle->nodes[list.items[2]].integer, -5);
  EXPECT_EQ(pickle->nodes[list.items[3]].integer, INT64_MIN);
  EXPECT_EQ(pickle->nodes[list.items[4]].real, 0.1);
  ASSERT_EQ(pickle->tensors.size(), 1U);
  EXPECT_EQ(pickle->tensors[0].type, ElementType::kBF16);
  EXPECT_EQ(pickle->tensors[0].sizes, (std::vector<std::int64_t>{2, 3}));
}

TEST(Pickle, RefusesWhatWouldRunCodeAndNamesIt) {
  const std::string system = pickled_name("os", "system") + pickled_text("touch /tmp/x") + "\x85R";
  EXPECT_THAT(refusal(pickle_of(system)), HasSubstr("GLOBAL at byte 2: the name \"os.system\" is none"));
  EXPECT_THAT(refusal(pickle_of(pickled_name("builtins", "eval"))), HasSubstr("\"builtins.eval\""));
  EXPECT_THAT(refusal(pickle_of(pickled_text("posix") + pickled_text("system") + "\x93")),
              HasSubstr("STACK_GLOBAL at byte 23: the name \"posix.system\""));
  EXPECT_THAT(refusal(pickle_of("(" + pickled_text("id") + "ios\nsystem\n")), HasSubstr("INST at byte 10: not among"));
  EXPECT_THAT(refusal(pickle_of(pickled_name("torch", "Size") + ")\x81")), HasSubstr("NEWOBJ at byte"));
  EXPECT_THAT(refusal(pickle_of("(" + pickled_name("torch", "Size") + "o")), HasSubstr("OBJ at byte"));
  EXPECT_THAT(refusal(pickle_of("\x82\x01")), HasSubstr("EXT1 at byte 2"));
  EXPECT_THAT(refusal(pickle_of("Pid\n")), HasSubstr("PERSID at byte 2"));
  EXPECT_THAT(refusal(pickle_of("]}b")), HasSubstr("BUILD at byte 4: it would call __setstate__"));
  EXPECT_THAT(refusal(pickle_of("}}b")), HasSubstr("BUILD at byte 4"));
  EXPECT_THAT(refusal(pickle_of(pickled_text("a") + ")R")), HasSubstr("REDUCE at byte 9: a call of what is no name"));
  EXPECT_THAT(refusal(pickle_of(pickled_name("torch", "float32") + ")R")), HasSubstr("REDUCE"));
}

TEST(Pickle, AnOrderedDictMayHaveAttributesAndLosesThem) {
  const std::string dict = pickled_name("collections", "OrderedDict") + ")R";
  const auto pickle = parse_pickle(pickle_of(dict + "}" + pickled_text("_metadata") + "}sb"));
  ASSERT_TRUE(pickle) << pickle.error();
  EXPECT_TRUE(pickle->nodes[pickle->root].items.empty());
}

TEST(Pickle, RefusesPersistentIdsThatAreNoStorage) {
  const auto id = [](const std::string& parts) { return refusal(pickle_of("(" + parts + "tQ")); };
  const std::string storage = pickled_text("storage") + pickled_name("torch", "FloatStorage");
  EXPECT_THAT(id(storage), HasSubstr("BINPERSID"));
  EXPECT_THAT(id(pickled_text("module") + pickled_name("torch", "FloatStorage") + pickled_text("0") +
                 pickled_text("cpu") + pickled_integer(1)),
              HasSubstr("a persistent id that is not ('storage'"));
  EXPECT_THAT(id(storage + pickled_text("../../etc/passwd") + pickled_text("cpu") + pickled_integer(1)),
              HasSubstr("a storage with the key"));
  EXPECT_THAT(id(storage + pickled_text("0") + pickled_text("cpu") + pickled_integer(-1)), HasSubstr("persistent id"));
  EXPECT_THAT(id(storage + pickled_text("0") + pickled_text("cpu") + pickled_integer(1)),
              HasSubstr("a storage that is no tensor"));
  EXPECT_THAT(id(pickled_text("storage") + pickled_name("torch", "Size") + pickled_text("0") + pickled_text("cpu") +
                 pickled_integer(1)),
              HasSubstr("a storage of the type torch.Size"));
}

TEST(Pickle, RefusesTensorsThatLeaveTheirStorage) {
  const auto tensor = [](const test::PickledTensor& made) { return refusal(pickle_of(pickled_tensor(made))); };
  EXPECT_EQ(tensor({}), "taken");
  EXPECT_THAT(tensor({.offset = 1}), HasSubstr("a tensor reaches to element 7 of storage '0', which has 6"));
  EXPECT_THAT(tensor({.offset = -1}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.strides = {-3, 1}}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.sizes = {2, -3}}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.sizes = {2}, .strides = {1, 1}}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.sizes = {3, 3}}), HasSubstr("reaches to element 9"));
  EXPECT_THAT(tensor({.sizes = {INT64_MAX, INT64_MAX}, .strides = {0, 0}}), HasSubstr("larger than any memory"));
  EXPECT_THAT(tensor({.sizes = {2, 2}, .strides = {INT64_MAX, INT64_MAX}}), HasSubstr("larger than any memory"));
  EXPECT_THAT(tensor({.sizes = std::vector<std::int64_t>(65, 1), .strides = std::vector<std::int64_t>(65, 1)}),
              HasSubstr("not counts"));
  EXPECT_THAT(tensor({.storage_class = "QInt8Storage"}), HasSubstr("the name \"torch.QInt8Storage\""));
  EXPECT_EQ(tensor({.offset = 6, .sizes = {0, 3}}), "taken");
  EXPECT_THAT(tensor({.offset = 7, .sizes = {0, 3}}), HasSubstr("reaches to element 7"));
}

TEST(Pickle, RefusesOneStorageOfTwoSizes) {
  const std::string two = "(" + pickled_tensor({}) + pickled_tensor({.elements = 8}) + "t";
  EXPECT_THAT(refusal(pickle_of(two)), HasSubstr("storage '0' with two types or sizes"));
}

TEST(Pickle, RefusesValuesWithoutEnd) {
  EXPECT_THAT(refusal(pickle_of(repeated("]", 1'000'000) + repeated("a", 999'999))), HasSubstr("nested more than 64"));
  EXPECT_THAT(refusal(pickle_of("]q\1h\1a")), HasSubstr("a value that holds itself"));
  // Lists of two that hold the list before: 2^60 values in 400 bytes.
  std::string laughs = "]";
  for (char i = 0; i < 60; ++i) laughs += std::string("q") + i + "](h" + i + "h" + i + "e";
  EXPECT_THAT(refusal(pickle_of(laughs)), HasSubstr("the stack does not hold"));
  std::string nested = "](K\1K\1e";
  for (char i = 0; i < 60; ++i) nested += std::string("q") + i + "h" + i + "\x86";
  EXPECT_THAT(refusal(pickle_of(nested)), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(pickle_of(repeated("N", 2'000'001))), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(pickle_of(repeated("(", 2'000'001))), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(pickle_of("N" + repeated("\x94", 2'000'001))), HasSubstr("more than 2000000 values"));
}

TEST(Pickle, RefusesWrongUseOfMemoAndStack) {
  EXPECT_THAT(refusal(pickle_of("j" + test::little_endian(0x80000000, 4))),
              HasSubstr("LONG_BINGET at byte 2: nothing was stored under 2147483648"));
  EXPECT_THAT(refusal(pickle_of("")), HasSubstr("the stack does not hold exactly one value"));
  EXPECT_THAT(refusal(pickle_of("NN")), HasSubstr("exactly one value"));
  EXPECT_THAT(refusal(pickle_of("N(")), HasSubstr("exactly one value"));
  EXPECT_THAT(refusal(pickle_of("t")), HasSubstr("there is no mark"));
  EXPECT_THAT(refusal(pickle_of("e")), HasSubstr("there is no mark"));
  EXPECT_THAT(refusal(pickle_of("](\x85")), HasSubstr("the stack is empty"));
  EXPECT_THAT(refusal(pickle_of("}Na")), HasSubstr("what is no list"));
  EXPECT_THAT(refusal(pickle_of("](NNu")), HasSubstr("what is no dict"));
  EXPECT_THAT(refusal(pickle_of("}(Nu")), HasSubstr("a key without a value"));
  EXPECT_THAT(refusal("\x80\x02N.N"), HasSubstr("bytes follow the end"));
  EXPECT_THAT(refusal("\x80\x02N"), HasSubstr("cut short"));
  EXPECT_THAT(refusal(""), HasSubstr("cut short"));
  EXPECT_THAT(refusal(pickle_of("X" + test::little_endian(0xFFFFFFFF, 4))), HasSubstr("cut short"));
  EXPECT_THAT(refusal(pickle_of("\x8d" + test::little_endian(1ULL << 63U, 8))), HasSubstr("cut short"));
  EXPECT_THAT(refusal(std::string("\x80\0N.", 4)), HasSubstr("protocol 0"));
  EXPECT_THAT(refusal(pickle_of("\x8a\x09" + std::string(9, '\1'))), HasSubstr("an integer of 9 bytes"));
}

TEST(Pickle, RefusesKeysThatStandTwiceAndOtherKeys) {
  EXPECT_THAT(refusal(pickle_of("}(" + pickled_text("a") + "N" + pickled_text("a") + "Nu")),
              HasSubstr("key \"a\" stands"));
  EXPECT_THAT(refusal(pickle_of("}(K\1NK\1Nu")), HasSubstr("key 1 stands twice"));
  EXPECT_THAT(refusal(pickle_of("})Ns")), HasSubstr("neither a text nor an integer"));
}

}  // namespace pickle_parse_test
}  // namespace lockstep::checkpoint
