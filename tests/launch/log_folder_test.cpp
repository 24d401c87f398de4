// SPDX-License-Identifier: Apache-2.0
#include "launch/output/log_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "launch/output/temporary_logs.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace log_folder_test {

namespace fs = std::filesystem;
using launch::LogFolder;

/// A temporary folder of this test's own, in which there are old logs.
class TemporaryLogs : public ::testing::Test {
 protected:
  TemporaryLogs() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~TemporaryLogs() override { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }

  [[nodiscard]] fs::path at(int number) const { return folder_ / fmt::format("lockstep-logs-old{:03}", number); }

  static void set_age(const fs::path& path, int days) {
    const timespec time{::time(nullptr) - days * 86'400L, 0};
    const timespec both[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW), 0);
  }

  /// Logs as a failed run leaves them, `number` days ago.
  void add(int number) const {
    fs::create_directories(at(number) / "attempt_0" / "rank-0");
    std::ofstream(at(number) / "attempt_0" / "rank-0" / "stderr.log") << "it failed\n";
    set_age(at(number), number);
  }

  [[nodiscard]] std::ptrdiff_t count() const {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  }

  test::TempDir folder_;

 private:
  const std::optional<std::string> before_ = [] {
    const char* value = std::getenv("TMPDIR");
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }();
};

TEST_F(TemporaryLogs, OfFailedRunsStayTheNewestTwenty) {
  for (int number = 1; number <= 25; ++number) add(number);
  { const LogFolder fails({}); }
  EXPECT_EQ(count(), 20);
  EXPECT_TRUE(fs::exists(at(19) / "attempt_0" / "rank-0" / "stderr.log"));
  EXPECT_FALSE(fs::exists(at(20)));
  for (int i = 0; i < 30; ++i) const LogFolder fails({});
  EXPECT_EQ(count(), 20);
}

TEST_F(TemporaryLogs, OfARunThatSucceedsDoNotStay) {
  {
    LogFolder succeeds({});
    EXPECT_EQ(count(), 1);
    succeeds.remove();
  }
  EXPECT_EQ(count(), 0);
}

TEST_F(TemporaryLogs, OfARunThatStillRunsStayHoweverOldTheyAre) {
  const LogFolder runs({});
  set_age(runs.path(), 100);
  for (int number = 1; number <= 25; ++number) add(number);
  { const LogFolder fails({}); }
  EXPECT_TRUE(fs::exists(runs.path()));
  EXPECT_EQ(count(), 21);
}

TEST_F(TemporaryLogs, OfALongRunThatFailsAreNewAtItsEnd) {
  fs::path path;
  {
    const LogFolder fails({});
    path = fails.path();
    for (int number = 1; number <= 25; ++number) add(number);
    set_age(path, 100);
  }
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(count(), 20);
}

TEST_F(TemporaryLogs, LinksAndOtherNamesAreNobodysLogs) {
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere / "precious") << "mine\n";
  fs::create_directory_symlink(elsewhere, at(900));
  set_age(at(900), 900);
  fs::create_directory_symlink(elsewhere, at(1) += "x");  // no name of mkdtemp's
  for (int number = 1; number <= 25; ++number) add(number);
  fs::create_directory_symlink(elsewhere, at(25) / "attempt_0" / "link");
  for (const char* name : {"lockstep-logs-", "lockstep-logs-my own", "my-lockstep-logs-abcdef"}) {
    fs::create_directory(folder_ / name);
    set_age(folder_ / name, 1000);
  }
  std::ofstream(folder_ / "lockstep-logs-a_file") << "a file\n";
  launch::prune_temporary_logs(folder_.path());
  EXPECT_EQ(count(), 20 + 1 + 2 + 3 + 1);
  EXPECT_FALSE(fs::exists(at(25)));
  EXPECT_TRUE(fs::exists(elsewhere / "precious"));
}

TEST_F(TemporaryLogs, OfAnotherUserStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make folders of another user";
  for (int number = 1; number <= 25; ++number) add(number);
  ASSERT_EQ(::chown(at(25).c_str(), 65'534, 65'534), 0);
  launch::prune_temporary_logs(folder_.path());
  EXPECT_TRUE(fs::exists(at(25)));
  EXPECT_EQ(count(), 21);
}

}  // namespace log_folder_test
}  // namespace lockstep
