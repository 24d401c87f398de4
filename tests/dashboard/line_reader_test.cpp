// SPDX-License-Identifier: Apache-2.0
#include "dashboard/line_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace lockstep::dashboard {
namespace line_reader_test {

class LineReaderTest : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  LineReader::Progress read(std::uint64_t most = 1 << 30) {
    return reader_.read(
        most, [this] { lines_.clear(); }, [this](std::string_view line) { lines_.emplace_back(line); });
  }

  test::TempDir folder_;
  std::filesystem::path file_ = folder_.path() / "log.jsonl";
  LineReader reader_{file_};
  std::vector<std::string> lines_;
};
using Lines = std::vector<std::string>;

TEST_F(LineReaderTest, WaitsForTheRestOfALine) {
  EXPECT_EQ(read().read, 0U);  // the file is not there yet
  append("one\ntw");
  read();
  EXPECT_EQ(lines_, Lines({"one"}));
  append("o\n");
  read();
  EXPECT_EQ(lines_, Lines({"one", "two"}));
}

TEST_F(LineReaderTest, ReadsEachByteOnce) {
  append(std::string(3'000'000, 'x') + "\n");
  EXPECT_EQ(read().read, 3'000'001U);
  append("new\n");
  EXPECT_EQ(read().read, 4U);
  EXPECT_EQ(read().read, 0U);
  EXPECT_EQ(lines_.size(), 2U);
}

TEST_F(LineReaderTest, ReadsALargeFileOverSeveralCalls) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "0123456789\n";
  append(text);
  const auto first = read(1 << 20);
  EXPECT_FALSE(first.is_complete);
  EXPECT_LE(first.read, 1U << 20);
  while (!read(1 << 20).is_complete) continue;
  EXPECT_EQ(lines_.size(), 300'000U);
}

TEST_F(LineReaderTest, BeginsAnewWhereAResumedRunHasCutTheFile) {
  append("one\ntwo\nthree\nhalf a line");
  read();
  std::filesystem::resize_file(file_, 4);
  append("2\n");
  EXPECT_TRUE(read().restarted);
  EXPECT_EQ(lines_, Lines({"one", "2"}));
}

}  // namespace line_reader_test
}  // namespace lockstep::dashboard
