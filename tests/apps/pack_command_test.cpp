// SPDX-License-Identifier: Apache-2.0
// `lockstep pack` as a person types it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace pack_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

/// A folder of two classes with a picture each.
class PackCommand : public ::testing::Test {
 protected:
  PackCommand() {
    for (const char* name : {"cat", "dog"}) {
      fs::create_directories(home_ / "data" / name);
      fs::copy_file(kGolden / "rgb.png", home_ / "data" / name / "1.png");
    }
  }
  ProcessResult pack(std::vector<std::string> words) {
    words.insert(words.begin(), "pack");
    return lockstep(std::move(words), home_.path());
  }
  TempDir home_;
};

TEST_F(PackCommand, PacksChecksAndFindsTheFirstBadSample) {
  const ProcessResult made = pack({"data", "--out", "a.pack", "--workers", "2"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("2 samples in a.pack ("));
  EXPECT_THAT(pack({"--check", "a.pack"}).out, StartsWith("a.pack: whole (2 samples"));
  std::fstream file(home_ / "a.pack", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4100);
  file.put('\x01');
  file.close();
  const ProcessResult bad = pack({"--check", "a.pack"});
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("byte 4096: sample 0 differs"), HasSubstr("lockstep pack")));
}

TEST_F(PackCommand, WritesShardsAndReadsThemBack) {
  const ProcessResult tar = pack({"data", "--out", "t.tar", "--format", "tar", "--shard-size", "1K"});
  EXPECT_EQ(tar.code, 0) << tar.err;
  EXPECT_TRUE(fs::exists(home_ / "t-000001.tar"));
  const ProcessResult back = pack({"t-{000000..000001}.tar", "--out", "b.pack", "--encoded"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.out, StartsWith("2 samples in b.pack"));
}

TEST_F(PackCommand, ABadPictureIsAnInputErrorUnlessItIsSkipped) {
  std::ofstream(home_ / "data/dog/2.png") << "nothing";
  const ProcessResult bad = pack({"data", "--out", "a.pack"});
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, HasSubstr("dog/2.png"));
  EXPECT_FALSE(fs::exists(home_ / "a.pack"));
  const ProcessResult skipped = pack({"data", "--out", "a.pack", "--skip-bad"});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.out, AllOf(HasSubstr("2 samples"), HasSubstr("1 left out"), HasSubstr("dog/2.png")));
}

TEST_F(PackCommand, WhatIsMissingOrWrongIsToldWithTheNextStep) {
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {{"nowhere", "--out", "x"}, 65},
      {{"data"}, 64},
      {{"data", "--out", "x", "--format", "tra"}, 64},
      {{"data", "--out", "x", "--shard-size", "2M"}, 64},
      {{"data", "--out", "x", "--format", "tar", "--shard-size", "2Q"}, 64},
      {{"data", "--out", "x", "--type", "clases"}, 64},
      {{"data", "--out", "x", "--encoded", "--max-side", "8"}, 64},
      {{"data", "--out", "x", "--workers", "0"}, 64},
      {{"--check", "none.pack"}, 65}};
  for (const auto& [words, code] : cases) {
    const ProcessResult result = pack(words);
    EXPECT_EQ(result.code, code) << words.back() << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("error:"));
  }
  EXPECT_THAT(pack({"--help"}).out, HasSubstr("lockstep pack data/bccd --split train --out bccd.pack"));
}

}  // namespace pack_command_test
}  // namespace lockstep::test
