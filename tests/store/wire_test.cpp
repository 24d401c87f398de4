// SPDX-License-Identifier: Apache-2.0
#include "store/wire.h"

#include <gtest/gtest.h>

#include "store/table.h"

namespace lockstep::store {
namespace wire_test {

std::string_view body_of(const std::string& frame) { return std::string_view(frame).substr(kHeaderBytes); }

TEST(Wire, ReadsBackWhatItWrote) {
  const std::string frame =
      FrameWriter(Verb::kWait).number(-5).string(std::string("a\0b", 3)).strings({"x", "", "yy"}).take();
  EXPECT_EQ(read_length(frame.data()), frame.size() - kHeaderBytes);
  FrameReader reader(body_of(frame));
  EXPECT_EQ(reader.byte(), static_cast<std::uint8_t>(Verb::kWait));
  EXPECT_EQ(reader.number(), -5);
  EXPECT_EQ(reader.string(), std::string("a\0b", 3));
  EXPECT_EQ(reader.strings(), (std::vector<std::string>{"x", "", "yy"}));
  EXPECT_TRUE(reader.complete());
}

TEST(Wire, EveryTornBodyIsIncomplete) {
  const std::string frame =
      FrameWriter(Verb::kCompareSet).string("key").string("old").number(7).strings({"a", "b"}).take();
  for (std::size_t length = 0; length + 1 < frame.size() - kHeaderBytes; ++length) {
    FrameReader reader(body_of(frame).substr(0, length));
    reader.byte();
    reader.string();
    reader.string();
    reader.number();
    reader.strings();
    EXPECT_FALSE(reader.complete()) << length;
  }
}

TEST(Wire, ALengthBeyondTheBodyIsRefusedWithoutAllocatingIt) {
  FrameReader reader(std::string_view("\xff\xff\xff\xff", 4));
  EXPECT_EQ(reader.strings().size(), 1U);  // the first string failed
  EXPECT_FALSE(reader.ok());
}

TEST(Wire, BytesLeftOverAreNotComplete) {
  FrameReader reader("\x01more");
  reader.byte();
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.complete());
}

TEST(Table, AddRefusesTextAndOverflow) {
  Table table;
  EXPECT_EQ(table.add("n", 9223372036854775807), 9223372036854775807);
  EXPECT_EQ(table.add("n", 1), std::nullopt);
  table.set("word", "12x");
  EXPECT_EQ(table.add("word", 1), std::nullopt);
  EXPECT_EQ(table.find("word"), "12x");
}

TEST(Table, CompareSetTakesUnsetForEmpty) {
  Table table;
  EXPECT_EQ(table.compare_set("k", "something", "new"), "");
  EXPECT_EQ(table.find("k"), std::nullopt);
  EXPECT_EQ(table.compare_set("k", "", "first"), "first");
  EXPECT_EQ(table.compare_set("k", "", "second"), "first");
}

TEST(Table, TimeoutMessageNamesAFewKeysOnly) {
  EXPECT_EQ(timeout_message({"a"}, 2), "the store did not get key 'a' within 2.0 s");
  const std::vector<std::string> many(20, "k");
  EXPECT_NE(timeout_message(many, 2).find("and 12 more"), std::string::npos);
}

}  // namespace wire_test
}  // namespace lockstep::store
