// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file_below.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace lockstep {
namespace file_below_test {

namespace fs = std::filesystem;

class FileBelow : public testing::Test {
 protected:
  FileBelow() {
    fs::create_directories(root_ / "folder");
    std::ofstream(folder_.path() / "secret") << "secret";
    std::ofstream(root_ / "folder/file") << "words";
  }
  [[nodiscard]] std::string read(const fs::path& path) const { return read_below(root_, path, 100).value_or("none"); }

  test::TempDir folder_;
  fs::path root_ = folder_.path() / "root";
};

TEST_F(FileBelow, ReadsWhatLiesThere) {
  EXPECT_EQ(read("folder/file"), "words");
  EXPECT_EQ(read("folder/./file"), "words");
  EXPECT_EQ(read("folder/missing"), "none");
  EXPECT_EQ(read("folder"), "none");
}

TEST_F(FileBelow, FollowsNoLinkAndLeavesByNoName) {
  fs::create_symlink(folder_.path() / "secret", root_ / "link");
  fs::create_symlink("folder/file", root_ / "inner");
  fs::create_directory_symlink(folder_.path(), root_ / "out");
  for (const char* path : {"link", "inner", "out/secret", "../secret", "folder/../../secret", ""}) {
    EXPECT_EQ(read(path), "none") << path;
  }
  EXPECT_EQ(read(folder_.path() / "secret"), "none");
}

TEST_F(FileBelow, TheRootItselfMayBeALink) {
  fs::create_directory_symlink(root_, folder_.path() / "run");
  EXPECT_EQ(read_below(folder_.path() / "run", "folder/file", 100), "words");
}

TEST_F(FileBelow, WaitsForNoPipe) {
  ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read("pipe"), "none");
}

TEST_F(FileBelow, ReadsNoMoreThanItMay) {
  EXPECT_EQ(read_below(root_, "folder/file", 5), "words");
  EXPECT_EQ(read_below(root_, "folder/file", 4), std::nullopt);
  fs::resize_file(root_ / "folder/file", std::uintmax_t{8} << 30);
  EXPECT_EQ(read_below(root_, "folder/file", 1 << 20), std::nullopt);
}

}  // namespace file_below_test
}  // namespace lockstep
