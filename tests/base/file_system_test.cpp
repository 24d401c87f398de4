// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/file_lock.h"
#include "support/temp_dir.h"

namespace {
int fsync_error = 0;  // what fsync and flock fail with; 0: they work
int flock_error = 0;

int fail_with(int code) {
  errno = code;
  return -1;
}
}  // namespace

/// Before the C library's: file systems that do not know these verbs.
extern "C" int fsync(int fd) {
  return fsync_error != 0 ? fail_with(fsync_error) : static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int flock(int fd, int operation) noexcept {
  return flock_error != 0 ? fail_with(flock_error) : static_cast<int>(::syscall(SYS_flock, fd, operation));
}

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

TEST(FileSystem, WhereFoldersHaveNoFsyncItGoesOnAndOtherErrorsStayErrors) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  for (const int code : {EINVAL, ENOTSUP}) {
    fsync_error = code;
    EXPECT_NO_THROW(files.sync_folder(folder.path())) << code;
  }
  fsync_error = EIO;
  EXPECT_THROW(files.sync_folder(folder.path()), SyncError);
  fsync_error = EINVAL;  // of a file it is never fine
  EXPECT_THROW(files.create(folder / "a")->sync(), SyncError);
  fsync_error = 0;
}

TEST(FileLock, IsTakenOnceAndWhereThereAreNoLocksTheProgramGoesOn) {
  const test::TempDir folder;
  const auto open = [&] { return UniqueFd(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)); };
  const UniqueFd first = open();
  const UniqueFd second = open();
  EXPECT_EQ(try_lock_file(first.get(), "lock"), FileLock::kTaken);
  EXPECT_EQ(try_lock_file(second.get(), "lock"), FileLock::kBusy);
  for (const int code : {ENOSYS, EOPNOTSUPP}) {
    flock_error = code;
    EXPECT_EQ(try_lock_file(second.get(), "lock"), FileLock::kUnsupported) << code;
  }
  flock_error = EBADF;
  EXPECT_THROW((void)try_lock_file(second.get(), "lock"), IoError);
  flock_error = 0;
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
