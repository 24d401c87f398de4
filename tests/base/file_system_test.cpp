// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file_system.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace file_system_test {

TEST(FileSystem, ReadsBackWhatWasWritten) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  write_file_atomically(files, folder / "a.txt", "hello");
  EXPECT_EQ(files.read(folder / "a.txt"), "hello");
  EXPECT_EQ(files.list(folder.path()), std::vector<std::string>{"a.txt"});
}

TEST(FileSystem, AMissingFileIsADataErrorThatNamesIt) {
  const test::TempDir folder;
  try {
    (void)FileSystem::system().read(folder / "none.txt");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("none.txt"), std::string::npos);
  }
}

TEST(FileSystem, AFailedReplacementLeavesTheOldFileAndNoTemporary) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  files.make_folder(folder / "target/child");  // a folder with entries cannot be replaced by a file
  EXPECT_THROW(write_file_atomically(files, folder / "target", "x"), IoError);
  EXPECT_EQ(files.list(folder.path()), std::vector<std::string>{"target"});
}

TEST(FileSystem, ReadsFilesOfUnknownSize) { EXPECT_FALSE(FileSystem::system().read("/proc/self/status").empty()); }

TEST(FileSystem, ReadsPartsOfAFileAndNotPastItsEnd) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  write_file_atomically(files, folder / "a.txt", "hello");
  const auto file = files.open(folder / "a.txt");
  EXPECT_EQ(file->size(), 5U);
  std::string part(3, 0);
  file->read(2, part.data(), part.size());
  EXPECT_EQ(part, "llo");
  EXPECT_THROW(file->read(3, part.data(), part.size()), DataError);
  EXPECT_THROW((void)files.open(folder / "none.txt"), DataError);
  EXPECT_THROW((void)files.open(folder.path()), IoError);
}

}  // namespace file_system_test
}  // namespace lockstep
