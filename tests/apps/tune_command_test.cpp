// SPDX-License-Identifier: Apache-2.0
// `lockstep tune` on drawn images, and that `train` takes what it wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace tune_command_test {

using ::testing::HasSubstr;

std::vector<std::string> tune_words(const std::filesystem::path& data, const std::string& budget) {
  return {"tune",         "captcha:conv3", "--set", "data.train=" + data.string(), "--set", "data.charset=0-9", "--set",
          "batch_size=4", "--budget",      budget};
}

TEST(TuneCommand, WritesAFileThatTrainTakesWhereSomethingIsFaster) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 40, 1).code, 0);
  auto words = tune_words(folder / "train", "4");
  words.insert(words.end(), {"--nproc-per-node", "2"});
  const ProcessResult tune = lockstep(words, folder.path());
  ASSERT_EQ(tune.code, 0) << tune.err;
  EXPECT_THAT(tune.out,
              ::testing::ContainsRegex("captcha:conv3 on 2 processes: [0-9.]+ ms per step with the given settings"));
  EXPECT_THAT(tune.out, ::testing::ContainsRegex(
                            "channels_last=false +[0-9.]+ ms against +[0-9.]+ ms  [0-9.]+ x the time .* taken"));
  if (tune.out.find("nothing is faster than the given settings") != std::string::npos) {
    EXPECT_FALSE(FileSystem::system().exists(folder / "tuned.yml"));
    return;
  }
  EXPECT_THAT(tune.out, HasSubstr("lockstep train tuned.yml --nproc-per-node 2"));
  const std::string yaml = FileSystem::system().read(folder / "tuned.yml");
  EXPECT_THAT(yaml, HasSubstr("data.charset: 0-9\n"));
  EXPECT_THAT(yaml, ::testing::ContainsRegex(
                        "channels_last: (true|false) +# false: [0-9.]+ ms against [0-9.]+ ms, [0-9.]+ x the time"));

  const ProcessResult again = lockstep(words, folder.path());
  EXPECT_EQ(again.code, 64);
  EXPECT_THAT(again.err, HasSubstr("tuned.yml exists"));

  const ProcessResult train =
      lockstep({"train", "tuned.yml", "--run-dir", "run", "--set", "max_steps=1", "--set", "epochs=1"}, folder.path());
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(FileSystem::system().read(folder / "run/config.yml"), HasSubstr("batch_size: 4\n"));
}

TEST(TuneCommand, WhereNothingIsFasterNoFileIsWritten) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 8, 1).code, 0);
  const ProcessResult tune = lockstep(tune_words(folder / "train", "0.001"), folder.path());  // no time for a trial
  ASSERT_EQ(tune.code, 0) << tune.err;
  EXPECT_THAT(tune.out, HasSubstr("nothing is faster than the given settings: no file"));
  EXPECT_THAT(tune.out, ::testing::Not(HasSubstr("lockstep train tuned.yml")));
  EXPECT_FALSE(FileSystem::system().exists(folder / "tuned.yml"));
}

TEST(TuneCommand, WithoutDataItIsAUsageErrorAndWritesNothing) {
  const TempDir folder;
  const ProcessResult tune = lockstep({"tune", "captcha:conv3"}, folder.path());
  EXPECT_EQ(tune.code, 64);
  EXPECT_THAT(tune.err, HasSubstr("data.train is not set"));
  EXPECT_FALSE(FileSystem::system().exists(folder / "tuned.yml"));
}

}  // namespace tune_command_test
}  // namespace lockstep::test
