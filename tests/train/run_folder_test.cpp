// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/run_folder.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace {

TEST(RunFolder, IsMadeWithItsParentsAndLogsALineEach) {
  const test::TempDir root;
  RunFolder folder(root / "a/b");
  folder.log({{"step", "1"}, {"loss", "0.5"}});
  folder.log({{"step", "2"}});
  EXPECT_EQ(FileSystem::system().read(root / "a/b/log.jsonl"), "{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2}\n");
}

TEST(RunFolder, ASecondRunInTheSameFolderIsRefused) {
  const test::TempDir root;
  const RunFolder first(root / "run");
  EXPECT_THROW(RunFolder(root / "run"), UsageError);
}

TEST(RunFolder, AFolderWithAnEarlierRunIsRefused) {
  const test::TempDir root;
  RunFolder(root / "run").write("config.yml", "epochs: 1\n");
  try {
    const RunFolder again(root / "run");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(error.message().find("holds an earlier run"), std::string::npos);
  }
}

TEST(RunFolder, LogsOfTheLauncherAreNoEarlierRun) {
  const test::TempDir root;
  FileSystem::system().make_folder(root / "run/logs/attempt_0");
  EXPECT_NO_THROW(RunFolder(root / "run"));
}

}  // namespace
}  // namespace lockstep
