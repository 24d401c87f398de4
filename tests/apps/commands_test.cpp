// SPDX-License-Identifier: Apache-2.0
// The commands of a first afternoon, on real processes: generate, train on two ranks, evaluate, predict, inspect.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "lockstep/launch/train_options.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace commands_test {

using ::testing::HasSubstr;

std::string first_image(const std::filesystem::path& folder) {
  return (folder / FileSystem::system().list(folder).front()).string();
}

TEST(Commands, DrawTrainOnTwoRanksEvaluateAndPredict) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 32, 1).code, 0);
  ASSERT_EQ(generate_digits(folder / "test", 6, 2).code, 0);

  auto words = train_words(folder / "train", folder / "run");
  words.insert(words.end(), {"--nproc-per-node", "2", "--set", "data.test=" + (folder / "test").string()});
  const ProcessResult train = lockstep(words);
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(train.out, HasSubstr("conv3"));
  EXPECT_THAT(train.out, HasSubstr("shm"));
  EXPECT_THAT(train.out, HasSubstr("4 x 2 replicas = 8"));
  EXPECT_THAT(train.out, HasSubstr("string_accuracy"));
  EXPECT_THAT(train.out, HasSubstr("lockstep eval captcha --checkpoint"));
  const std::string summary = FileSystem::system().read(folder / "run/summary.json");
  EXPECT_THAT(summary, HasSubstr("\"world_size\": 2"));
  EXPECT_THAT(summary, HasSubstr("\"steps\": 4"));
  EXPECT_TRUE(FileSystem::system().exists(folder / "run/logs/attempt_0/rank-1/stdout.log"));

  const std::string run = (folder / "run").string();
  const ProcessResult eval =
      lockstep({"eval", "captcha", "--checkpoint", run, "--data", (folder / "test").string(), "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_THAT(eval.out, HasSubstr("\"samples\": 6"));
  EXPECT_THAT(eval.out, HasSubstr("\"char_accuracy\": "));
  const auto with_threads = [&](const char* setting) {
    return lockstep({"eval", "captcha", "--checkpoint", run, "--data", (folder / "test").string(), "--set", setting});
  };
  const ProcessResult default_threads = with_threads("threads=0");  // 0: the checkpoint's number, as in training
  EXPECT_EQ(default_threads.code, 0) << default_threads.err;
  EXPECT_EQ(with_threads("threads=-1").code, 64);

  const ProcessResult predict = lockstep({"predict", "captcha", "--checkpoint", run, first_image(folder / "test")});
  EXPECT_EQ(predict.code, 0) << predict.err;
  EXPECT_THAT(predict.out, ::testing::ContainsRegex("[.]png  [0-9][0-9][0-9][0-9]  [0-9.]+ %"));

  const ProcessResult verify = lockstep({"checkpoint", "verify", run});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_THAT(verify.out, HasSubstr("whole"));
}

// A PyTorchJob with only a master, or mpirun -np 1.
const std::vector<std::pair<std::string, std::string>> kWorldOfOne = {
    {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "23456"}};

TEST(Commands, AWorldOfOneRankThatHasNoLauncherStartsTheRanksThatItIsAskedFor) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 16, 1).code, 0);
  auto words = train_words(folder / "train", folder / "my run");
  words.insert(words.end(), {"--nproc-per-node", "2"});
  auto train = lockstep_command(words);
  train.environment.insert(train.environment.end(), kWorldOfOne.begin(), kWorldOfOne.end());
  const ProcessResult result = run_process(train, kTrainingPatience);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("--checkpoint '" + (folder / "my run").string() + "' ")) << "a shell can read it";
  EXPECT_THAT(FileSystem::system().read(folder / "my run/summary.json"), HasSubstr("\"world_size\": 2"));

  const std::string image = first_image(folder / "train");
  auto predict = lockstep_command({"predict", "captcha", "--checkpoint", (folder / "my run").string(), image});
  predict.environment = {{"RANK", "1"},
                         {"WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "9"},
                         {"LOCKSTEP_TIMEOUT", "3"}};
  const ProcessResult predicted = run_process(predict, kTrainingPatience);
  EXPECT_EQ(predicted.code, 0) << "predict waits for the other ranks of its environment: " << predicted.err;
}

TEST(Commands, ARankOfAJobSaysThatItStartsNoRanksItself) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 16, 1).code, 0);
  auto words = train_words(folder / "train", folder / "run");
  words.insert(words.begin(), {"run", "--nproc-per-node", "2", "--", lockstep_path()});
  words.insert(words.end(), {"--nproc-per-node", "4", "--max-restarts=2"});
  const ProcessResult train = lockstep(words);
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr("--nproc-per-node 4, --max-restarts 2 are ignored: RANK and WORLD_SIZE make this "
                                   "process rank 0 of 2"));
}

/// The preset asks for three GPUs and a precision meant for GPUs, but must also train on a machine without a GPU.
TEST(Commands, APresetForGpusTrainsOnAProcessorAndSaysWhatDiffers) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 16, 1).code, 0);
  const std::vector<std::string> words = {"train",        "captcha:ultra",
                                          "--device",     "cpu",
                                          "--run-dir",    (folder / "run").string(),
                                          "-u",           "data.train=" + (folder / "train").string(),
                                          "batch_size=2", "workers=1",
                                          "max_steps=1"};
  const ProcessResult run = lockstep(words);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("captcha:ultra is intended for GPUs: on this CPU, amp is bf16 instead of fp16"));
  EXPECT_THAT(FileSystem::system().read(folder / "run/config.yml"), HasSubstr("amp: bf16"));
  std::vector<std::string> typed = words;
  typed.insert(typed.end(), {"amp=fp16", "--resume", "auto"});
  const ProcessResult refused = lockstep(typed);
  EXPECT_EQ(refused.code, 64) << "what a person typed is not changed";
  EXPECT_THAT(refused.err, HasSubstr("amp=bf16"));
}

/// --test-only takes the settings of the checkpoint; what a person typed about the evaluation comes first.
TEST(Commands, ATestOnlyUsesTypedSettingsOfTheEvaluationAndNamesTheOthers) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 8, 1).code, 0);
  ASSERT_EQ(lockstep({"train", "captcha:ultra", "--device", "cpu", "--run-dir", "run", "-u", "data.train=train",
                      "batch_size=2", "workers=1", "max_steps=1"},
                     folder.path())
                .code,
            0);
  const auto test = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train",       "captcha:ultra", "--device",       "cpu",
                                      "--test-only", "--set",         "data.test=train"};
    words.insert(words.end(), more.begin(), more.end());
    return lockstep(words, folder.path());
  };
  const ProcessResult refused = test({"-r", "run", "--set", "amp=fp16"});
  EXPECT_EQ(refused.code, 64) << "the typed precision is used, and a CPU does not have it";
  EXPECT_THAT(refused.err, HasSubstr("fp16"));
  const ProcessResult tested = test({"-r", "run", "-u", "amp=none", "batch_size=1", "seed=5"});
  EXPECT_EQ(tested.code, 0) << tested.err;
  EXPECT_THAT(tested.err, HasSubstr("run/checkpoints/step-00000001; without effect: seed=5\n"));

  ASSERT_EQ(lockstep({"checkpoint", "export", "run", "--to", "w.safetensors"}, folder.path()).code, 0);
  const ProcessResult weights = test({"-t", "w.safetensors"});
  EXPECT_EQ(weights.code, 0) << "as in a training, the preset's fp16 becomes bf16: " << weights.err;
  EXPECT_THAT(weights.err, HasSubstr("on this CPU, amp is bf16 instead of fp16"));
}

/// In the checkpoint's own folder, the results would be removed with it.
TEST(Commands, ATestOnlyOfAStepFolderWritesItsResultsIntoTheRunFolder) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 8, 1).code, 0);
  ASSERT_EQ(lockstep(train_words(folder / "train", folder / "run")).code, 0);
  const std::filesystem::path step = folder / "run/checkpoints/step-00000002";
  for (const std::string& source : {step.string() + "/", step.parent_path().string(), (folder / "run/").string()}) {
    std::filesystem::remove_all(folder / "run/eval");
    const ProcessResult tested =
        lockstep({"train", "captcha", "--test-only", "-r", source, "--set", "data.test=" + (folder / "train").string()},
                 folder.path());
    ASSERT_EQ(tested.code, 0) << tested.err;
    EXPECT_TRUE(std::filesystem::exists(folder / "run/eval/metrics.json")) << source;
    EXPECT_FALSE(std::filesystem::exists(step / "eval")) << source;
  }
}

/// The same goes for GPUs: captcha:ultra has 3 replicas, and a machine may have 4 or 8.
TEST(Commands, NoMoreProcessesTrainThanHaveAReplica) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 16, 1).code, 0);
  auto words = train_words(folder / "train", folder / "run");
  words.insert(words.end(), {"--nproc-per-node", "auto", "--set", "replicas=1"});
  const ProcessResult train = lockstep(words);
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(FileSystem::system().read(folder / "run/summary.json"), HasSubstr("\"world_size\": 1"));
}

TEST(Commands, RunsThatStartAtOnceHaveAFolderEachAndOneThatFailsHasNone) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 8, 1).code, 0);
  const auto words = [&](const std::string& data) {
    return std::vector<std::string>{
        "train", "captcha:digits",     "--device",     "cpu",         "--nproc-per-node", "1",
        "-u",    "data.train=" + data, "batch_size=2", "max_steps=1", "workers=1"};
  };
  std::vector<std::future<ProcessResult>> runs;
  for (int run = 0; run < 3; ++run) {
    runs.push_back(std::async(std::launch::async, [&] { return lockstep(words("train"), folder.path()); }));
  }
  for (auto& run : runs) {
    const ProcessResult result = run.get();
    EXPECT_EQ(result.code, 0) << result.err;
  }
  const auto made = FileSystem::system().list(folder / "runs");
  EXPECT_EQ(made.size(), 3U);
  for (const auto& name : made)
    EXPECT_TRUE(FileSystem::system().exists(folder / "runs" / name / "summary.json")) << name;

  EXPECT_EQ(lockstep({"train", "captcha:nosuch", "--nproc-per-node", "1"}, folder.path()).code, 64);
  EXPECT_EQ(
      lockstep({"train", "captcha:digits", "--nproc-per-node", "1", "--set", "batch_size=-3"}, folder.path()).code, 64);
  EXPECT_EQ(FileSystem::system().list(folder / "runs"), made);
}

TEST(Commands, RanksThatAreStartedOneByOneMeetByAFile) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 16, 1).code, 0);
  const auto words = [&](const char* rank) {
    auto all = train_words(folder / "train", folder / "run");
    all.insert(all.end(), {"--dist_url", "file://" + (folder / "meet").string() + "?host=127.0.0.1", "--rank", rank,
                           "--world_size", "2"});
    return all;
  };
  ProcessResult second;
  std::thread other([&] { second = lockstep(words("1")); });
  const ProcessResult first = lockstep(words("0"));
  other.join();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(first.out, HasSubstr("4 x 2 replicas = 8"));
  EXPECT_THAT(FileSystem::system().read(folder / "run/summary.json"), HasSubstr("\"world_size\": 2"));
  EXPECT_FALSE(FileSystem::system().exists(folder / "meet"));
}

TEST(Commands, EvaluationOnTwoRanksGivesTheFiguresOfOne) {
  const TempDir folder;
  ASSERT_EQ(generate_digits(folder / "train", 8, 1).code, 0);
  ASSERT_EQ(generate_digits(folder / "test", 7, 2).code, 0);  // odd: the ranks have different shares
  ASSERT_EQ(lockstep(train_words(folder / "train", folder / "run")).code, 0);
  std::vector<std::string> words = {
      "eval", "captcha", "--checkpoint", (folder / "run").string(), "--data", (folder / "test").string(), "--json"};
  const auto metrics = [](const ProcessResult& result) { return result.out.substr(result.out.find("\"metrics\"")); };
  const ProcessResult one = lockstep(words);
  words.insert(words.end(), {"--nproc-per-node", "2"});
  const ProcessResult two = lockstep(words);
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(metrics(one), metrics(two));
}

TEST(Commands, InspectSamplerPrintsPyTorchsIndices) {
  const ProcessResult result = lockstep({"inspect", "sampler", "--size", "10", "--replicas", "3", "--rank", "1",
                                         "--seed", "0", "--epoch", "0", "--no-shuffle"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "[1, 4, 7, 0]\n");
}

TEST(Commands, InspectSamplerPrintsAListForEachBatch) {
  std::vector<std::string> words = {
      "inspect", "sampler", "--size", "10",           "--replicas",   "2", "--rank", "0", "--seed",
      "0",       "--epoch", "0",      "--no-shuffle", "--batch-size", "2"};
  EXPECT_EQ(lockstep(words).out, "[0, 2]\n[4, 6]\n[8]\n");
  words.emplace_back("--drop-last");
  EXPECT_EQ(lockstep(words).out, "[0, 2]\n[4, 6]\n");
}

TEST(Commands, BenchLoaderPrintsAFigureForEachEpoch) {
  const ProcessResult result =
      lockstep({"bench", "loader", "noop", "--size", "1000", "--epochs", "2", "--workers", "1", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\"epoch\": 1, \"images_per_s\": [0-9]"));
}

TEST(Commands, InspectConfigNamesTheOriginOfEveryValue) {
  const ProcessResult result = lockstep({"inspect", "config", "captcha:digits", "--set", "epochs=3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("epochs +3 +--set"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("data.charset +0-9 +captcha:digits:[0-9]"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("batch_size +64 +default"));
}

TEST(Commands, InspectConfigHasALineOfJsonForEverySetting) {
  const ProcessResult result = lockstep({"inspect", "config", "captcha:digits", "--set", "epochs=3", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("{\"key\": \"epochs\", \"value\": 3, \"origin\": \"--set\", \"meaning\": \""));
  EXPECT_THAT(result.out, HasSubstr("{\"key\": \"data.charset\", \"value\": \"0-9\", \"origin\": \"captcha:digits:"));
  EXPECT_THAT(result.out, HasSubstr("\"key\": \"channels_last\", \"value\": true,"));
  EXPECT_THAT(result.out, HasSubstr("\"key\": \"optimizer.lr\", \"value\": 0.0006,"));
}

TEST(Commands, InspectEnvShowsWhatWasDetectedAndEveryVariableThatCounts) {
  ProcessOptions command = lockstep_command({"inspect", "env"});
  command.environment.insert(command.environment.end(), {{"NCCL_SOCKET_IFNAME", "eth7"},
                                                         {"CUDA_LAUNCH_BLOCKING", "1"},
                                                         {"NCCL_ALGO", "Ring"},
                                                         {"LOCKSTEP_WIRE", "plain"}});
  const ProcessResult result = run_process(command, std::chrono::seconds(60));
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* line :
       {"libtorch +[0-9.]+, (with CUDA|no CUDA: )", "backends +local, shm, tcp", "wire +plain, from LOCKSTEP_WIRE",
        "processor .* usable core", "NCCL_SOCKET_IFNAME +eth7 +the network interfaces",
        "CUDA_LAUNCH_BLOCKING +1 +1: the host", "NCCL_ALGO +Ring", "LOCKSTEP_TIMEOUT +60 +seconds"}) {
    EXPECT_THAT(result.out, ::testing::ContainsRegex(line));
  }
  EXPECT_THAT(result.out, ::testing::ContainsRegex("SLURM_STEP_NODELIST +- +the hosts of the step"))
      << "not set, and listed";
}

TEST(Commands, InspectGpuSaysWhyThereIsNoneAndThatIsNoError) {
  const ProcessResult result = lockstep({"inspect", "gpu", "--watch", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.out.find("no GPU: ") == std::string::npos) {
    EXPECT_THAT(result.out, HasSubstr("processes"));
  } else {
    EXPECT_THAT(result.out, ::testing::ContainsRegex("no GPU: .*driver"));
  }
}

TEST(Commands, BenchesPrintTheirKeysAsJson) {
  const ProcessResult reduce = lockstep({"bench", "all-reduce", "--nproc-per-node", "2", "--bytes", "4096", "--json"});
  EXPECT_EQ(reduce.code, 0) << reduce.err;
  for (const char* key : {"\"bench\": \"all_reduce\"", "\"backend\": \"shm\"", "\"ranks\": 2", "\"bytes\": 4096",
                          "\"mode\": \"in_place\"", "\"mode\": \"copy\"", "\"median_us\": ", "\"gb_per_s\": "}) {
    EXPECT_THAT(reduce.out, HasSubstr(key));
  }
  const ProcessResult startup = lockstep({"bench", "startup", "--nproc-per-node", "2", "--repeats", "1", "--json"});
  EXPECT_EQ(startup.code, 0) << startup.err;
  EXPECT_THAT(startup.out,
              ::testing::ContainsRegex("^\\{\"bench\": \"startup\", \"ranks\": 2, \"median_ms\": [0-9.]+, "));
  const ProcessResult step =
      lockstep({"bench", "step", "captcha", "--model", "conv3", "--batch", "2", "--repeats", "1", "--json"});
  EXPECT_EQ(step.code, 0) << step.err;
  for (const char* key : {"\"bench\": \"captcha_step\"", "\"ranks\": 1", "\"threads\": 1", "\"batch\": 2",
                          "\"parameters\": 9379728", "\"median_ms\": ", "\"images_per_s\": "}) {
    EXPECT_THAT(step.out, HasSubstr(key));
  }
}

TEST(Commands, TimeAStepOfEveryRecipeOnMadeUpData) {
  for (const char* recipe : {"detection:smoke", "segmentation:smoke", "captioning:smoke"}) {
    const ProcessResult step = lockstep({"bench", "step", recipe, "--batch", "2", "--repeats", "1", "--json"});
    EXPECT_EQ(step.code, 0) << step.err;
    EXPECT_THAT(step.out, HasSubstr("\"batch\": 2, "));
    EXPECT_THAT(step.out, ::testing::ContainsRegex("\"parameters\": [1-9][0-9]+, \"median_ms\": [0-9.]+"));
  }
  const ProcessResult profile =
      lockstep({"bench", "step", "detection:smoke", "--batch", "2", "--repeats", "1", "--profile", "1"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_THAT(profile.out, HasSubstr("profile of 1 step on rank 0 of 1"));
  EXPECT_THAT(profile.out, HasSubstr("memory: the steps' tensors took"));
}

TEST(Commands, MeasureTheDigestsOfAStep) {
  const ProcessResult cost = lockstep(
      {"bench", "step", "captcha", "--model", "conv3", "--batch", "2", "--repeats", "9", "--digest-cost", "--json"});
  ASSERT_EQ(cost.code, 0) << cost.err;
  const auto field = [&](const std::string& name) {
    const std::string key = "\"" + name + "\": ";
    const std::size_t at = cost.out.find(key);
    return at == std::string::npos ? std::nan("") : std::stod(cost.out.substr(at + key.size()));
  };
  EXPECT_EQ(field("pairs"), 9);
  EXPECT_GT(field("update_ms"), 0);
  EXPECT_GT(field("step_ms"), field("update_ms"));
  EXPECT_GT(field("record_us"), 0);
  EXPECT_LT(field("low_us"), field("high_us"));
  EXPECT_NEAR(field("share"), (field("digest_us") + field("record_us")) / field("step_ms") / 1e3, 1e-5);
}

TEST(Commands, ABenchedStepNeedsNoEvaluationsForItsSecondStage) {
  const ProcessResult step = lockstep({"bench", "step", "detection:smoke", "--batch", "2", "--repeats", "1", "--set",
                                       "stop_epoch=1", "--set", "data.test="});
  EXPECT_EQ(step.code, 0) << step.err;
}

TEST(Commands, ABenchedStepRefusesASettingThatTheRecipeHasNot) {
  const ProcessResult step = lockstep({"bench", "step", "detection:smoke", "--model", "conv3"});
  EXPECT_EQ(step.code, 64);
  EXPECT_THAT(step.err, HasSubstr("model.type"));
}

TEST(Commands, BenchStepMeasuresDataParallelInOneProcess) {
  const std::vector<std::string> words = {"bench", "step",      "captcha", "--model",         "conv3", "--batch",
                                          "2",     "--repeats", "1",       "--data-parallel", "2",     "--json"};
  const ProcessResult step = lockstep(words);
  EXPECT_EQ(step.code, 0) << step.err;
  for (const char* key : {"\"bench\": \"captcha_step_data_parallel\"", "\"ranks\": 1", "\"replicas\": 2",
                          "\"batch\": 2", "\"parameters\": 9379728", "\"images_per_s\": "}) {
    EXPECT_THAT(step.out, HasSubstr(key));
  }
  auto on_two_ranks = words;
  on_two_ranks.insert(on_two_ranks.end(), {"--nproc-per-node", "2"});
  const ProcessResult refused = lockstep(on_two_ranks);
  EXPECT_EQ(refused.code, 64);
  EXPECT_THAT(refused.err, HasSubstr("--data-parallel measures threads of one process"));
}

TEST(Commands, ThatRunInOneProcessRefuseMore) {
  for (const char* verb : {"predict", "generate", "checkpoint", "inspect", "pack"}) {
    const ProcessResult result = lockstep({verb, "--nproc-per-node", "2", "x"});
    EXPECT_EQ(result.code, 64) << verb;
    EXPECT_THAT(result.err,
                HasSubstr(std::string("lockstep ") + verb + " runs in one process, but --nproc-per-node is 2"));
  }
}

TEST(Commands, TrainingNeedsARecipe) {
  const ProcessResult result = lockstep({"train", "--nproc-per-node", "2"});
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("no recipe or settings file was given"));
}

TEST(Commands, OptionsThatLockstepTakesAwayAreInTheHelpOfTheVerbs) {
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{{"train"},
                                                                                    {"eval"},
                                                                                    {"tune"},
                                                                                    {"bench", "all-reduce"},
                                                                                    {"bench", "memory"},
                                                                                    {"bench", "startup"},
                                                                                    {"bench", "step", "captcha"},
                                                                                    {"run"}}) {
    std::vector<std::string> words = verb;
    words.emplace_back("--help");
    const ProcessResult help = verb.front() == "run" ? lockstep(words) : ask_worker(words, ".");
    EXPECT_EQ(help.code, 0) << verb.front();
    EXPECT_THAT(help.out, ::testing::AllOf(HasSubstr("  --nproc-per-node N|auto|gpu|cpu\n"), HasSubstr("  --quiet  ")))
        << verb.front();
  }
}

TEST(Commands, HelpOfTrainHasEachOptionOfATraining) {
  const ProcessResult help = ask_worker({"train", "--help"}, ".");
  for (const TrainOption& option : train_options()) {
    EXPECT_THAT(help.out, ::testing::ContainsRegex(fmt::format("[ ,]{}[ ,\n]", option.name)));
  }
}

/// A setting given as an option must not confuse other options: the launcher, which has no settings, and a rank find
/// the same recipe.
TEST(Commands, ATrainingFindsItsRecipeBehindSettings) {
  const TempDir folder;
  const auto train = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "train");
    words.insert(words.end(), {"--max-time", "1s"});
    const ProcessResult run = lockstep(words, folder.path());
    EXPECT_THAT(run.code, ::testing::AnyOf(0, 143)) << run.err;
    return run.out;
  };
  EXPECT_THAT(train({"--batch-size", "4", "detection:smoke", "--run-dir", "one", "--nproc-per-node", "2"}),
              HasSubstr(": detection\n"));
  EXPECT_THAT(train({"--distributed", "detection:smoke"}), HasSubstr("runs/detection-"));
}

TEST(Commands, QuietNewWritesAProjectAndPrintsNothing) {
  const TempDir folder;
  const ProcessResult made = lockstep({"new", "digits", "--quiet"}, folder.path());
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out + made.err, "");
  EXPECT_TRUE(std::filesystem::exists(folder / "digits/CMakeLists.txt"));
  EXPECT_THAT(lockstep({"new", "shapes"}, folder.path()).out, HasSubstr("shapes is ready. Next:\n\n  cd shapes\n"));
}

TEST(Commands, NewNamesTheCMakePackageThatABuildFolderLacksAndQuotesItsFolder) {
  const TempDir folder;
  const ProcessResult made = lockstep({"new", "digits", "--folder", "my work"}, folder.path());
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("  cd 'my work'\n"));
  EXPECT_THAT(made.out, HasSubstr("  # there is no Lockstep CMake package next to "));
  EXPECT_THAT(made.out, HasSubstr("liblockstep-dev"));
}

/// Returns the end of a bash line in which $L is the command.
ProcessResult bash(const std::string& line) {
  return run_process({.command = {"bash", "-c", line}, .environment = {{"L", lockstep_path()}}}, kTrainingPatience);
}

TEST(Commands, AResultThatAFullDiskLosesIsAnErrorAndAShortReaderIsNone) {
  const ProcessResult full = bash("$L inspect config captcha > /dev/full");
  EXPECT_EQ(full.code, 74) << full.err;
  EXPECT_THAT(full.err, HasSubstr("standard output was not written completely: No space left on device"));
  EXPECT_THAT(full.err, HasSubstr("next  free space on that disk, and run the command again"));
  EXPECT_EQ(bash("$L inspect config captcha | true; exit ${PIPESTATUS[0]}").code, 0);
  EXPECT_EQ(bash("$L train > /dev/full").code, bash("$L train > /dev/null").code) << "the result is no output";
}

TEST(Commands, RunStartsThePythonThatTheVariableNames) {
  const TempDir folder;
  const std::filesystem::path python = folder.path() / "python";
  std::ofstream(python) << "#!/bin/sh\necho \"chosen: $*\"\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const auto said = [&](std::vector<std::string> words) {
    ProcessOptions options = lockstep_command(std::move(words), folder.path());
    options.environment.emplace_back("PYTHON_EXEC", python.string());
    return run_process(options).out;
  };
  EXPECT_THAT(said({"run", "train.py", "--epochs", "2"}), HasSubstr("chosen: -u train.py --epochs 2"));
  EXPECT_THAT(said({"run", "-m", "module"}), HasSubstr("chosen: -u -m module"));
  std::filesystem::remove(python);
  ProcessOptions options = lockstep_command({"run", "train.py"}, folder.path());
  options.environment.emplace_back("PYTHON_EXEC", python.string());
  EXPECT_THAT(run_process(options).err,
              HasSubstr("PYTHON_EXEC is '" + python.string() + "', which cannot be executed (No such file"));
}

TEST(Commands, ACommandOfABuildFolderSaysWhatInstallsTheCMakePackage) {
  const ProcessResult said = lockstep({"cmake-dir"});
  EXPECT_EQ(said.code, 69);
  EXPECT_THAT(said.err, HasSubstr("there is no Lockstep CMake package next to"));
}

TEST(Commands, RunExplainsItsExitCodesAndSpellings) {
  const std::string help = lockstep({"run", "--help"}).out;
  for (const char* part : {"  128 \\+ N +signal N ended", "  69 +the system allows too few",
                           "  71 +a Lockstep program ended with an exception", "--nproc_per_node is --nproc-per-node",
                           "a .py file is run with python3"}) {
    EXPECT_THAT(help, ::testing::ContainsRegex(part));
  }
}

}  // namespace commands_test
}  // namespace lockstep::test
