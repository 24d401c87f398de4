// SPDX-License-Identifier: Apache-2.0
#include "launch/verdict_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace verdict_file_test {

using nlohmann::json;

TEST(VerdictFile, SaysWhoWhyAndWhatWasDoneThen) {
  const Order order{
      .kind = Order::Kind::kEnd,
      .reason = "no restarts are left",
      .cause =
          FailureRecord{
              .kind = FailureKind::kDied, .message = "killed by signal 9 (SIGKILL)", .rank = 2, .host = "gpu-b"},
      .code = 137};
  const json verdict = json::parse(verdict_json(order));
  EXPECT_EQ(verdict["schema"], 1);
  EXPECT_EQ(verdict["text"], "rank 2 on gpu-b failed first: killed by signal 9 (SIGKILL)");
  EXPECT_EQ(verdict["cause"], "died");
  EXPECT_EQ(verdict["rank"], 2);
  EXPECT_EQ(verdict["exit_code"], 137);
  EXPECT_EQ(verdict["then"], "no restarts are left");
}

TEST(VerdictFile, OfAHangHasTheLauncherOwnWordsAndOfARestartNoExitCode) {
  const Order order{.kind = Order::Kind::kAgain,
                    .reason = "restart 1 of 3",
                    .cause = FailureRecord{.kind = FailureKind::kHang, .message = "rank 1 hangs: it sleeps", .rank = 1},
                    .code = 76};
  const json verdict = json::parse(verdict_json(order));
  EXPECT_EQ(verdict["text"], "rank 1 hangs: it sleeps");
  EXPECT_EQ(verdict["cause"], "hang");
  EXPECT_EQ(verdict["exit_code"], 0);
}

TEST(VerdictFile, OfRanksThatLeftAsTheyWereToldBlamesNobody) {
  const Order order{.kind = Order::Kind::kEnd,
                    .reason = "the ranks stopped on request, rank 1 on gpu-b first",
                    .cause = FailureRecord{.kind = FailureKind::kDied, .message = "exit code 143", .rank = 1},
                    .is_graceful = true,
                    .code = 143};
  const json verdict = json::parse(verdict_json(order));
  EXPECT_EQ(verdict["text"], order.reason);
  EXPECT_EQ(verdict["cause"], "told");
  EXPECT_EQ(verdict["exit_code"], 143);
  EXPECT_EQ(verdict["then"], "");
}

TEST(VerdictFile, HasTheStacksOfTheRankOnlyWhereThereAreSome) {
  const Order order{.cause = FailureRecord{.kind = FailureKind::kHang, .rank = 1}};
  EXPECT_EQ(json::parse(verdict_json(order, {"thread 10 train (main)", "  #0 main+0x1 (train)"}))["stacks"],
            json({"thread 10 train (main)", "  #0 main+0x1 (train)"}));
  EXPECT_FALSE(json::parse(verdict_json(order)).contains("stacks"));
}

TEST(VerdictFile, LiesBesideTheLogsOfItsAttemptAndIsLeftOutWithoutACause) {
  const test::TempDir folder;
  write_verdict({.kind = Order::Kind::kEnd}, {}, folder.path());
  EXPECT_FALSE(FileSystem::system().exists(folder / "verdict.json"));
  write_verdict({.cause = FailureRecord{.message = "broken", .rank = 0}}, {}, folder.path());
  EXPECT_TRUE(json::parse(FileSystem::system().read(folder / "verdict.json")).contains("text"));
  write_verdict({.cause = FailureRecord{}}, {}, folder / "missing");
  std::filesystem::remove(folder / "verdict.json");
  write_verdict({.reason = "the launcher was told to stop (SIGTERM)", .is_graceful = true}, {}, folder.path());
  EXPECT_EQ(json::parse(FileSystem::system().read(folder / "verdict.json"))["cause"], "told");
}

}  // namespace verdict_file_test
}  // namespace lockstep::launch
