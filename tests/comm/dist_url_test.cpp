// SPDX-License-Identifier: Apache-2.0
#include "comm/addresses/dist_url.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "comm/addresses/address_file.h"
#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep::comm {
namespace dist_url_test {

using ::testing::HasSubstr;

TEST(DistUrl, OfTcpTakesRankAndWorldFromTheAddressThenTheArgumentsThenTheEnvironment) {
  const Environment environment = {{"RANK", "2"}, {"WORLD_SIZE", "7"}, {"MASTER_ADDR", "elsewhere"}};
  const auto from_address = plan_world({.url = "tcp://10.0.0.1:23456?rank=1&world_size=4", .rank = "3"}, environment);
  EXPECT_EQ(from_address.info.rank, 1);
  EXPECT_EQ(from_address.info.world_size, 4);
  EXPECT_EQ(from_address.host, "10.0.0.1");
  EXPECT_EQ(from_address.port, 23456);
  EXPECT_EQ(from_address.store, StoreKind::kRankZero);
  EXPECT_EQ(plan_world({.url = "tcp://a:1", .rank = "3"}, environment).info.rank, 3);
  EXPECT_EQ(plan_world({.url = "tcp://a:1"}, environment).info.rank, 2);
}

TEST(DistUrl, OfTcpWinsOverALaunchersStore) {
  const Environment environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCKSTEP_STORE", "127.0.0.1:9"}};
  EXPECT_EQ(plan_world({.url = "tcp://a:1"}, environment).store, StoreKind::kRankZero);
  EXPECT_EQ(plan_world({.url = "env://"}, environment).store, StoreKind::kAgent);
  EXPECT_EQ(plan_world({}, environment).store, StoreKind::kAgent);
}

TEST(DistUrl, OfTheEnvironmentTakesArgumentsThatSayTheSame) {
  const Environment environment = {
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCKSTEP_STORE", "a:9"}};
  for (const std::string url : {"", "env://"}) {
    const auto plan = plan_world({.url = url, .rank = "3", .world_size = "4", .local_rank = "1"}, environment);
    EXPECT_EQ(plan.info.local_rank, 1);
    EXPECT_EQ(plan_world({.url = url, .local_rank = "-1"}, environment).info.rank, 3) << "their word for unknown";
  }
}

TEST(DistUrl, OfTheEnvironmentRefusesArgumentsThatContradictItWithBothValues) {
  const Environment environment = {
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCKSTEP_STORE", "a:9"}};
  const auto words = [&](const DistArguments& arguments) -> std::string {
    try {
      (void)plan_world(arguments, environment);
    } catch (const UsageError& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_EQ(words({.url = "env://", .local_rank = "0"}), "--local_rank is 0, and the launcher says 1");
  EXPECT_EQ(words({.rank = "2"}), "--rank is 2, and the launcher says 3");
  EXPECT_EQ(words({.world_size = "8"}), "--world_size is 8, and the launcher says 4");
}

TEST(DistUrl, WithoutALauncherAWorldSizeIsIgnoredAndSaid) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(plan_world({.world_size = "4", .local_rank = "0"}, {}).info.world_size, 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("--world_size 4 is ignored: no launcher has started this process, so its world_size is 1"));
}

TEST(DistUrl, OfAFileNamesThePath) {
  const auto plan = plan_world({.url = "file:///shared/job-7", .rank = "1", .world_size = "2"}, {});
  EXPECT_EQ(plan.store, StoreKind::kFile);
  EXPECT_EQ(plan.file, "/shared/job-7");
  EXPECT_EQ(plan.info.rank, 1);
  EXPECT_EQ(plan_world({.url = "file:///x?host=10.0.0.5", .rank = "0", .world_size = "2"}, {}).host, "10.0.0.5");
  EXPECT_EQ(plan_world({.url = "file:///x", .rank = "0", .world_size = "1"}, {}).store, StoreKind::kNone);
}

TEST(DistUrl, ThatSaysTooLittleIsAnErrorThatSaysWhat) {
  const auto words = [](const DistArguments& arguments) -> std::string {
    try {
      (void)plan_world(arguments, {});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(words({.url = "tcp://host:1"}), HasSubstr("needs a rank"));
  EXPECT_THAT(words({.url = "tcp://host:1", .rank = "0"}), HasSubstr("needs a world size"));
  EXPECT_THAT(words({.url = "tcp://host", .rank = "0", .world_size = "2"}), HasSubstr("has no host:port"));
  EXPECT_THAT(words({.url = "mpi://host"}), HasSubstr("there is no mpi://"));
  EXPECT_THAT(words({.url = "host:1"}), HasSubstr("is no address"));
  EXPECT_THAT(words({.url = "file://x", .rank = "0", .world_size = "2"}), HasSubstr("no path from /"));
  EXPECT_THAT(words({.url = "tcp://h:1?size=2", .rank = "0", .world_size = "2"}), HasSubstr("knows no 'size'"));
}

class AddressFile : public ::testing::Test {
 protected:
  static constexpr const char* kText = "10.0.0.7 4711 abc\n";

  std::string problem_of(const std::string& content, std::filesystem::perms mode) const {
    std::filesystem::remove(file_);
    std::ofstream(file_) << content;
    std::filesystem::permissions(file_, mode);
    const auto read = read_address(file_);
    return read ? "none" : read.error();
  }

  const test::TempDir folder_;
  const std::filesystem::path file_ = folder_.path() / "job";
  const StoreAddress address_{.host = "10.0.0.7", .port = 4711, .token = "abc"};
};

TEST_F(AddressFile, IsReadAsItWasWritten) {
  EXPECT_EQ(read_address(file_).error(), "rank 0 has not written it");
  publish_address(file_, address_);
  const auto read = read_address(file_);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->host, "10.0.0.7");
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->token, "abc");
}

// Whoever reads the token while the file is being written is in the job.
TEST_F(AddressFile, IsAtNoMomentOpenToOthers) {
  std::atomic<bool> is_done = false;
  std::atomic<int> seen_open = 0;
  std::thread looker([&] {
    while (!is_done) {
      std::error_code gone;
      for (std::filesystem::directory_iterator it(folder_.path(), gone), end; !gone && it != end; it.increment(gone)) {
        const auto mode = it->status(gone).permissions();
        constexpr auto kOthers = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
        if (!gone && (mode & kOthers) != std::filesystem::perms::none) ++seen_open;
      }
    }
  });
  const mode_t before = ::umask(0);
  for (int i = 0; i < 30; ++i) publish_address(file_, address_);
  ::umask(before);
  is_done = true;
  looker.join();
  EXPECT_EQ(seen_open, 0);
}

TEST_F(AddressFile, OfAnotherIsNoWordOfRankZero) {
  using std::filesystem::perms;
  EXPECT_EQ(problem_of(kText, perms::owner_read | perms::owner_write), "none");
  EXPECT_THAT(problem_of(kText, perms::owner_all | perms::group_read), HasSubstr("its mode is 0740"));
  EXPECT_THAT(problem_of(kText, perms::owner_read | perms::others_write), HasSubstr("others may read or change it"));
  std::filesystem::remove(file_);
  std::filesystem::create_symlink(folder_ / "elsewhere", file_);
  EXPECT_EQ(read_address(file_).error(), "it is a symbolic link");
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(read_address(file_).error(), "it is no regular file") << "and nobody waits for its writer";
  std::filesystem::remove(file_);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  publish_address(file_, address_);
  ASSERT_EQ(::chown(file_.c_str(), 4711, 4711), 0);
  EXPECT_THAT(read_address(file_).error(), HasSubstr("belongs to user 4711"));
}

TEST_F(AddressFile, WithAnythingElseIsNoAddress) {
  for (const std::string_view text : {"", "\n", " \n", "  \n", "h 1 t", "h 0 t\n", "h 65536 t\n", "h -1 t\n", "h x t\n",
                                      "h 1 \n", " 1 t\n", "h 1 t t\n", "h 1 \x1b[0m\n", "h\x1b 1 t\n", "h  1\n"}) {
    EXPECT_FALSE(parse_address(text).ok()) << text;
  }
}

}  // namespace dist_url_test
}  // namespace lockstep::comm
