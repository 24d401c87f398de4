// SPDX-License-Identifier: Apache-2.0
#include "comm/dist_url.h"

#include <gmock/gmock.h>

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

TEST(DistUrl, FileIsReadAsItWasWritten) {
  const test::TempDir folder;
  const auto file = folder.path() / "job";
  EXPECT_FALSE(read_address(file, {}).has_value());
  WorldPlan plan;
  plan.host = "10.0.0.7";
  plan.port = 4711;
  plan.token = "abc";
  publish_address(file, plan);
  const auto read = read_address(file, {});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->host, "10.0.0.7");
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->token, "abc");
}

}  // namespace dist_url_test
}  // namespace lockstep::comm
