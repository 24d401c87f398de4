// SPDX-License-Identifier: Apache-2.0
// Commands used before a run: `lockstep plan` and `lockstep tune`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace plan_command_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// `lockstep plan` from the command line.

class PlanCommand : public ::testing::Test {
 protected:
  /// Trains a few steps on two ranks, to base the plan on.
  void train() {
    ASSERT_EQ(generate_digits(home_ / "data", 80, 1).code, 0);
    std::vector<std::string> words = train_words(home_ / "data", home_ / "run");
    words.insert(words.end(), {"--nproc-per-node", "2", "--set", "max_steps=8"});
    const ProcessResult done = lockstep(std::move(words), home_.path());
    ASSERT_EQ(done.code, 0) << done.err;
  }
  ProcessResult plan(std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    return lockstep(std::move(words), home_.path());
  }
  TempDir home_;
};

TEST_F(PlanCommand, PlansFromARunsRings) {
  train();
  const ProcessResult text = plan({"run", "--gpus", "2", "--nodes", "4", "--link", "1Gb/50us"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("4 machines with 2 ranks, shm+tcp, link 114 MB/s, 50 us"),
                              HasSubstr("bottleneck: "), HasSubstr("1,024"), HasSubstr("bucket size: "),
                              HasSubstr("backend tcp"), HasSubstr("ZeRO-1"), HasSubstr("bf16 hook")));
  const ProcessResult done = plan({"run", "--gpus", "2", "--nodes", "4", "--link", "1Mb/1ms", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json["measured_ranks"], 2);
  EXPECT_EQ(json["images_per_rank"], 4);
  EXPECT_EQ(json["bottleneck"], "bandwidth");
  EXPECT_EQ(json["predicted"]["ranks"], 8);
  // A link of 1 Mbit/s carries 114 kB/s. Each machine's leader twice sends a quarter of the gradients to each of the
  // three other leaders.
  const double seconds = json["gradient_bytes"].get<double>() * 1.5 / (1e6 / 8 * 1448 / 1583);
  EXPECT_NEAR(json["predicted"]["step_ms"].get<double>() / 1e3 / seconds, 1, 0.1);
}

TEST_F(PlanCommand, MeasuresARecipe) {
  std::ofstream(home_ / "links.json") << R"({"link": "tcp", "from": "a", "to": "b", "round_trip_us": 100.0, )"
                                         R"("gbit_per_s": 0.800, "problem": null})";
  const ProcessResult done = plan({"captcha:conv3", "--batch", "3", "--gpus", "2", "--nodes", "2", "--link",
                                   "links.json", "--backend", "gloo", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json["predicted"]["backend"], "tcp");
  EXPECT_THAT(done.err, HasSubstr("note: the backend gloo is now called tcp"));
  EXPECT_GT(json["bucket_bytes"].size(), 1U);
  EXPECT_EQ(json["alternatives"].back()["name"], "PowerSGD hook, rank 1");
  EXPECT_EQ(json["images_per_rank"], 3);
  // The curve begins with a single rank, whose step was measured. The tolerance allows for a busy machine.
  EXPECT_NEAR(json["curve"][0]["step_ms"].get<double>() / json["alone_ms"].get<double>(), 1, 0.3);
}

TEST_F(PlanCommand, SaysWhatIsMissing) {
  const ProcessResult nothing = plan({"nothing"});
  EXPECT_EQ(nothing.code, 64);
  EXPECT_THAT(nothing.err, HasSubstr("'nothing' is not a folder"));
  EXPECT_THAT(nothing.err, ::testing::Not(HasSubstr("/lockstep-plan-"))) << "this folder of logs is removed";
  std::filesystem::create_directories(home_ / "empty");
  const ProcessResult empty = plan({"empty"});
  EXPECT_EQ(empty.code, 65);
  EXPECT_THAT(empty.err, HasSubstr("has no flight ring"));
  EXPECT_THAT(plan({}).err, HasSubstr("SOURCE"));
}

// `lockstep tune` on synthetic images; `train` accepts the file that it writes.

std::vector<std::string> tune_words(const std::filesystem::path& data, const std::string& budget) {
  return {"tune",         "captcha:conv3", "--set", "data.train=" + data.string(), "--set", "data.charset=0-9", "--set",
          "batch_size=4", "--budget",      budget};
}

TEST(TuneCommand, WritesAFileThatTrainTakesWhereSomethingIsFaster) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 40, 1).code, 0);
  auto words = tune_words(folder / "train", kAnySanitizer ? "300" : "4");
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
  EXPECT_THAT(again.err, HasSubstr("tuned.yml already exists"));

  const ProcessResult train =
      lockstep({"train", "tuned.yml", "--run-dir", "run", "--set", "max_steps=1", "--set", "epochs=1"}, folder.path());
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(FileSystem::system().read(folder / "run/config.yml"), HasSubstr("batch_size: 4\n"));
}

TEST(TuneCommand, WhereNothingIsFasterNoFileIsWritten) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 8, 1).code, 0);
  const ProcessResult tune =
      lockstep(tune_words(folder / "train", "0.001"), folder.path());  // leaves no time for a trial
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

}  // namespace plan_command_test
}  // namespace lockstep::test
