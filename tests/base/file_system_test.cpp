// SPDX-License-Identifier: Apache-2.0
// Files by name, and names that must not escape a folder.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_below.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/fonts.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace file_system_test {

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

}  // namespace file_system_test
}  // namespace lockstep

namespace {
int fsync_error = 0;  // the errno with which fsync and flock fail; 0 if they succeed
int flock_error = 0;

int fail_with(int code) {
  errno = code;
  return -1;
}
}  // namespace

/// Replaces the C library's functions, to simulate a file system without these operations.
extern "C" int fsync(int fd) {
  return fsync_error != 0 ? fail_with(fsync_error) : static_cast<int>(::syscall(SYS_fsync, fd));
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // a struct of <fcntl.h> has the same name
extern "C" int flock(int fd, int operation) noexcept {
  return flock_error != 0 ? fail_with(flock_error) : static_cast<int>(::syscall(SYS_flock, fd, operation));
}
#pragma GCC diagnostic pop

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

/// Everything that is not a regular file, with a description of its kind. `listener` keeps the socket open.
std::vector<std::pair<std::string, std::string>> special_files(const test::TempDir& folder, UniqueFd& listener) {
  EXPECT_EQ(::mkfifo((folder / "fifo").c_str(), 0644), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  listener.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "zero");
  FileSystem::system().make_folder(folder / "folder");
  return {{"fifo", "a named pipe"}, {"socket", "a socket"}, {"zero", "a device"}, {"folder", "a folder"}};
}

// Otherwise reading would block on a named pipe, and read a device until memory is full.
std::string refusal_of(const std::filesystem::path& file, std::uint64_t most) {
  try {
    (void)FileSystem::system().read(file, most);
    return "";
  } catch (const DataError& error) {
    return error.message();
  }
}

TEST(FileSystem, AHugeFileIsRefusedByItsSizeBeforeMemoryIsTaken) {
  const test::TempDir folder;
  const auto file = folder / "huge";
  write_file_atomically(FileSystem::system(), file, "x");
  std::filesystem::resize_file(file, std::uintmax_t{8} << 40U);  // larger than any memory
  EXPECT_EQ(refusal_of(file, kMostReadBytes),
            fmt::format("{} has 8.8 TB; the limit for such a file is 16.8 MB", file.string()));
  EXPECT_EQ(refusal_of(file, std::uint64_t{1} << 32U),
            fmt::format("{} has 8.8 TB; the limit for such a file is 4.3 GB", file.string()));
}

TEST(FileSystem, AFileThatHasMoreThanItSaysIsReadUpToTheLimit) {
  EXPECT_EQ(refusal_of("/proc/self/status", 100),
            "/proc/self/status has more than 100 B; the limit for such a file is 100 B");
}

TEST(FileSystem, AFileOfTheLimitIsRead) {
  const test::TempDir folder;
  write_file_atomically(FileSystem::system(), folder / "a", "12345");
  EXPECT_EQ(FileSystem::system().read(folder / "a", 5), "12345");
  EXPECT_NE(refusal_of(folder / "a", 4), "");
}

TEST(FileSystem, WhatIsNoRegularFileIsRefusedByNameAtOnce) {
  const test::TempDir folder;
  UniqueFd listener;
  FileSystem& files = FileSystem::system();
  for (const auto& [name, kind] : special_files(folder, listener)) {
    const std::filesystem::path path = folder / name;
    const std::string refusal =
        fmt::format("{} is {}, not a regular file\n  next  pass a regular file", path.string(), kind);
    EXPECT_EQ(test::fault_of<DataError>([&] { (void)files.read(path); }), refusal);
    EXPECT_EQ(test::fault_of<DataError>([&] { (void)files.open(path); }), refusal);
    EXPECT_EQ(test::fault_of<DataError>([&] { (void)files.create(path); }), refusal);
    EXPECT_EQ(test::fault_of<DataError>([&] { (void)open_regular_file(path, O_RDWR | O_CREAT); }), refusal);
  }
}

TEST(FileSystem, APipeOfTheShellIsRefusedWithWhatToDo) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const std::string path = fmt::format("/dev/fd/{}", reader.get());
  EXPECT_EQ(
      test::fault_of<DataError>([&] { (void)FileSystem::system().read(path); }),
      path + " is a pipe, not a regular file\n  next  write the command's output to a file first, and pass that file");
}

TEST(FileSystem, ARegularFileIsOpenedToBlockAndLinksAreFollowed) {
  const test::TempDir folder;
  write_file_atomically(FileSystem::system(), folder / "a.txt", "hello");
  std::filesystem::create_symlink("a.txt", folder / "link");
  EXPECT_EQ(FileSystem::system().read(folder / "link"), "hello");
  const UniqueFd fd = open_regular_file(folder / "a.txt", O_WRONLY | O_APPEND);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFL) & (O_NONBLOCK | O_APPEND), O_APPEND);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(try_open_regular_file(folder / "none").valid());
  EXPECT_EQ(errno, ENOENT);
}

TEST(FileSystem, APipeIsNotReplacedByAFile) {
  const test::TempDir folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0644), 0);
  EXPECT_EQ(test::fault_of<IoError>([&] { write_file_atomically(FileSystem::system(), folder / "fifo", "x"); }),
            fmt::format("cannot replace {}: it is a named pipe", (folder / "fifo").string()));
  EXPECT_EQ(FileSystem::system().list(folder.path()), std::vector<std::string>{"fifo"});
}

TEST(FileSystem, AFailedReplacementLeavesTheOldFileAndNoTemporary) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  files.make_folder(folder / "target/child");  // a non-empty folder cannot be replaced by a file
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
  fsync_error = EINVAL;  // never acceptable for a file
  EXPECT_THROW(files.create(folder / "a")->sync(), SyncError);
  fsync_error = 0;
}

TEST(NewFolder, HasTheFirstNameThatIsFreeAndItsParents) {
  const test::TempDir folder;
  const std::filesystem::path path = folder / "runs/captcha";
  EXPECT_EQ(make_new_folder(path), path);
  EXPECT_EQ(make_new_folder(path), path.string() + "-2");
  std::ofstream(path.string() + "-3") << "a file";
  EXPECT_EQ(make_new_folder(path), path.string() + "-4");
  EXPECT_THROW((void)make_new_folder(path.string() + "-3/below"), IoError);
}

TEST(NewFolder, IsOnesOwnAmongManyWhoAskAtOnce) {
  const test::TempDir folder;
  std::vector<std::future<std::filesystem::path>> asked;
  for (int i = 0; i < 8; ++i) {
    asked.push_back(std::async(std::launch::async, [&] { return make_new_folder(folder / "run"); }));
  }
  std::set<std::filesystem::path> made;
  for (auto& each : asked) made.insert(each.get());
  EXPECT_EQ(made.size(), 8U);
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
  EXPECT_THROW((void)files.open(folder.path()), DataError);
}

TEST(Fonts, LieBesideTheFolderOfTheProgramOrOfTheLibraryElseWhereDebianHasThem) {
  const test::TempDir home;
  const fs::path beside = home.path() / "share/fonts/truetype/dejavu";
  fs::create_directories(beside);
  const fs::path debian = "/usr/share/fonts/truetype/dejavu";
  EXPECT_EQ(font_folder_of(home.path() / "bin/program"), debian) << "a folder without the fonts is none";
  std::ofstream(beside / "DejaVuSans.ttf") << "";
  EXPECT_EQ(font_folder_of(home.path() / "bin/program"), beside);
  EXPECT_EQ(font_folder_of(home.path() / "lib/liblockstep.so"), beside);
  EXPECT_EQ(font_folder(), debian) << "no fonts are beside this test";
}

}  // namespace file_system_test
}  // namespace lockstep
