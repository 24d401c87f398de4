// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint` from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "checkpoint/states.h"
#include "lockstep/checkpoint/diff.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace checkpoint_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

FileSystem& files() { return FileSystem::system(); }

/// A run with checkpoints from steps 10 and 20; the best is step 10.
class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() {
    for (const std::int64_t step : {10, 20}) {
      commit_checkpoint(files(), folder_, {.step = step}, states_of(step), {{"config.yml", "seed: 1\n"}});
    }
    name_checkpoint(files(), folder_, "best", folder_ / "step-00000010");
  }

  ProcessResult checkpoint(std::vector<std::string> words) {
    words.insert(words.begin(), "checkpoint");
    return ask_worker(words, home_.path());
  }
  static std::string digest_of_step(const fs::path& step) { return checkpoint_digest(load_checkpoint(step.string())); }
  void tear(const char* step, const char* file) { fs::resize_file(folder_ / step / file, 7); }

  TempDir home_;
  fs::path folder_ = home_ / "run" / "checkpoints";
};

TEST_F(CheckpointCommand, InspectAndVerifyTakeAStepFolderARunAndAName) {
  const std::vector<std::pair<std::string, std::string>> forms = {{"run/checkpoints/step-00000010", "step-00000010"},
                                                                  {"run/checkpoints/step-00000010/", "step-00000010"},
                                                                  {"run", "step-00000020"},
                                                                  {"run/", "step-00000020"},
                                                                  {"run/checkpoints", "step-00000020"},
                                                                  {"run:best", "step-00000010"}};
  for (const auto& [path, step] : forms) {
    SCOPED_TRACE(path);
    const ProcessResult digest = checkpoint({"inspect", path, "--digest"});
    EXPECT_EQ(digest.code, 0) << digest.err;
    EXPECT_EQ(digest.out, digest_of_step(folder_ / step) + "\n");
    const ProcessResult verify = checkpoint({"verify", path});
    EXPECT_EQ(verify.code, 0) << verify.err;
    EXPECT_THAT(verify.out, AllOf(HasSubstr(step + ": whole (3 files, "), EndsWith(")\n")));
  }
}

TEST_F(CheckpointCommand, InspectListsStatesAndTexts) {
  const ProcessResult inspect = checkpoint({"inspect", "run"});
  EXPECT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_THAT(inspect.out, AllOf(HasSubstr("step           20\n"), HasSubstr("text           config.yml (8 B)\n"),
                                 HasSubstr("  conv.weight             float32 [2, 3, 4]       96 B  norm ")));
}

TEST_F(CheckpointCommand, WhatIsMissingOrTornIsAnInputError) {
  fs::create_directory(home_ / "empty");
  fs::create_directory(home_ / "empty/step-00000005");
  fs::create_directory(home_ / "none");
  tear("step-00000020", "model.safetensors");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nowhere", "checkpoint nowhere does not exist"},
      {"none", "none holds no checkpoint"},
      {"empty", "no checkpoint in empty passes verification (1 checked); the first: empty/step-00000005/manifest.json"},
      {"run:bets", "has no checkpoint named 'bets' (did you mean 'best'?)"},
      {"run/checkpoints/best", "is a file; a checkpoint is a folder"},
      {"run/checkpoints/step-00000030", "step-00000030 does not exist"},
      {"run/checkpoints/step-00000020", "step-00000020"}};
  for (const auto& [path, expected] : cases) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"verify", path}, {"diff", "run:best", path}}) {
      const ProcessResult result = checkpoint(words);
      EXPECT_EQ(result.code, 65) << words.front() << " " << path << ": " << result.err;
      EXPECT_THAT(result.err, AllOf(HasSubstr(expected), HasSubstr("\n  next  "))) << words.front() << " " << path;
    }
  }
}

TEST_F(CheckpointCommand, InspectShowsNothingOfWhatIsTorn) {
  tear("step-00000020", "trainer.safetensors");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"inspect", "run/checkpoints/step-00000020"}, {"inspect", "run/checkpoints/step-00000020", "--digest"}}) {
    const ProcessResult result = checkpoint(words);
    EXPECT_EQ(result.code, 65);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr("trainer.safetensors is torn: 7 bytes"));
  }
}

TEST_F(CheckpointCommand, VerifyNamesEveryDamagedFileAndCountsThem) {
  tear("step-00000020", "model.safetensors");
  tear("step-00000020", "config.yml");
  const ProcessResult torn = checkpoint({"verify", "run/checkpoints/step-00000020"});
  EXPECT_EQ(torn.code, 65);
  EXPECT_THAT(torn.out, AllOf(HasSubstr("step-00000020/config.yml is torn: 7 bytes, the manifest says 8\n"),
                              HasSubstr("step-00000020/model.safetensors is torn: 7 bytes, the manifest says ")));
  EXPECT_THAT(torn.err, HasSubstr("step-00000020: 2 of 4 files missing or torn\n"));
  // For a run, the command also names an older checkpoint that is whole.
  const ProcessResult run = checkpoint({"verify", "run"});
  EXPECT_EQ(run.code, 65);
  EXPECT_THAT(run.out, HasSubstr("step-00000020/model.safetensors is torn: "));
  EXPECT_THAT(run.err, AllOf(HasSubstr("step-00000020: 2 of 4 files missing or torn\n"),
                             HasSubstr("the newest whole checkpoint is run/checkpoints/step-00000010")));
  EXPECT_EQ(checkpoint({"verify", "run/checkpoints/step-00000010"}).code, 0);
}

TEST_F(CheckpointCommand, DiffAnswersWithItsExitCode) {
  commit_checkpoint(files(), home_ / "other" / "checkpoints", {.step = 99}, states_of(10));
  const ProcessResult equal = checkpoint({"diff", "run:best", "other"});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_THAT(equal.out, AllOf(StartsWith("equal: digest " + digest_of_step(folder_ / "step-00000010") + "\n"),
                               HasSubstr("  step        10  "), HasSubstr("  99\n")));
  const ProcessResult differ = checkpoint({"diff", "run", "run:best"});
  EXPECT_EQ(differ.code, 1);
  EXPECT_THAT(differ.err, IsEmpty());
  EXPECT_THAT(differ.out,
              AllOf(StartsWith("differ: 4 of 6 entries\na  run/checkpoints/step-00000020\nb  run/checkpoints/"),
                    HasSubstr("  trainer/step  20     10\n"), HasSubstr("  model/conv.weight")));
  EXPECT_THAT(checkpoint({"diff", "run", "run:best", "--limit", "1"}).out, HasSubstr("  ... and 1 more\n"));
}

TEST_F(CheckpointCommand, DiffPrintsOneJsonObject) {
  const std::string run = (home_ / "run").string();
  const ProcessResult differ = checkpoint({"diff", run, run + ":best", "--json"});
  EXPECT_EQ(differ.code, 1) << differ.err;
  EXPECT_EQ(differ.out, to_json(diff_checkpoints(load_checkpoint(run), load_checkpoint(run + ":best"))));
}

TEST_F(CheckpointCommand, WrongWordsAreAUsageErrorWithTheNextStep) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "a verb is missing: inspect, verify, diff, export, import or prune"},
      {{"dif", "run", "run"}, "did you mean 'diff'?"},
      {{"inspect"}, "lockstep checkpoint inspect: PATH is missing"},
      {{"verify"}, "PATH is missing"},
      {{"diff"}, "A and B are missing"},
      {{"diff", "run"}, "B is missing"},
      {{"diff", "run", "run", "run"}, "unexpected argument 'run'"},
      {{"diff", "run", "run", "--limit", "-1"}, "--limit"},
      {{"inspect", "run", "--digst"}, "did you mean '--digest'?"},
      {{"export", "run"}, "--to is missing"},
      {{"export", "run", "--to", "x.txt"}, "x.txt: the extension selects the format"},
      {{"import", "x.pth"}, "--to is missing"},
      {{"prune", "run"}, "--keep-last is missing"},
      {{"prune", "run", "--keep-last", "0"}, "--keep-last"}};
  for (const auto& [words, expected] : cases) {
    const ProcessResult result = checkpoint(words);
    EXPECT_EQ(result.code, 64) << expected << ": " << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(expected), HasSubstr("\n  next  ")));
  }
}

TEST_F(CheckpointCommand, EveryVerbHasHelpWithAnExampleAndDiffItsExitCodes) {
  for (const char* verb : {"inspect", "verify", "diff", "export"}) {
    const ProcessResult help = checkpoint({verb, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:\n  lockstep checkpoint "), HasSubstr("RUN:NAME")));
  }
  EXPECT_THAT(checkpoint({"diff", "--help"}).out,
              ::testing::ContainsRegex("Exit code:\n  0 +the checkpoints are equal\n  1 +they differ"));
}

TEST_F(CheckpointCommand, ExportsAndImportsGiveTheSameModel) {
  const ProcessResult exported = checkpoint({"export", "run:best", "--to", "x.pth", "--prefix", "module."});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.out, StartsWith("x.pth: 2 tensors, "));
  const ProcessResult imported = checkpoint({"import", "x.pth", "--to", "again", "--step", "10"});
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(imported.out, "again/checkpoints/step-00000010\n  model: 2 entries\n");
  EXPECT_TRUE(same_state(load_checkpoint((home_ / "again").string()).state("model"), states_of(10).at("model")));
  EXPECT_EQ(checkpoint({"export", "run:best", "--to", "x.safetensors"}).code, 0);
  EXPECT_THAT(checkpoint({"inspect", "x.safetensors"}).out, HasSubstr("  conv.weight             float32 [2, 3, 4]"));
  EXPECT_THAT(checkpoint({"inspect", "x.pth", "--json"}).out, StartsWith("{\"path\":\"x.pth\",\"states\":{"));
}

TEST_F(CheckpointCommand, VerifyChecksFilesAndNamesTheMember) {
  ASSERT_EQ(checkpoint({"export", "run", "--to", "x.pth"}).code, 0);
  const ProcessResult whole = checkpoint({"verify", "x.pth"});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, StartsWith("x.pth: whole ("));
  std::fstream file(home_ / "x.pth", std::ios::binary | std::ios::in | std::ios::out);
  const std::string bytes = files().read(home_ / "x.pth");
  file.seekp(static_cast<std::streamoff>(bytes.find("archive/version") - 100));
  file.put('?');
  file.close();
  const ProcessResult torn = checkpoint({"verify", "x.pth"});
  EXPECT_EQ(torn.code, 65);
  EXPECT_THAT(torn.out, HasSubstr("x.pth: 'archive/data/"));
  EXPECT_THAT(torn.err, HasSubstr("x.pth: 1 of 5 files missing or torn"));
}

TEST_F(CheckpointCommand, AFileThatWouldRunCodeIsAnInputErrorThatNamesIt) {
  const ProcessResult result =
      checkpoint({"import", LOCKSTEP_TEST_SOURCE_DIR "/tests/checkpoint/golden/attack.pth", "--to", "again"});
  EXPECT_EQ(result.code, 65);
  EXPECT_THAT(result.err, AllOf(HasSubstr("GLOBAL at byte"), HasSubstr("eval"), HasSubstr("\n  next  ")));
  EXPECT_FALSE(fs::exists(home_ / "again"));
}

TEST_F(CheckpointCommand, PruneRemovesWhatIsOldAndSaysWhatItWould) {
  for (const std::int64_t step : {30, 40}) commit_checkpoint(files(), folder_, {.step = step}, states_of(step));
  const ProcessResult dry = checkpoint({"prune", "run", "--keep-last", "1", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(HasSubstr("run/checkpoints/step-00000030\n"), HasSubstr("2 would be removed, ")));
  EXPECT_TRUE(fs::exists(folder_ / "step-00000030"));
  const ProcessResult pruned = checkpoint({"prune", "run", "--keep-last", "1", "--keep-every", "30"});
  EXPECT_EQ(pruned.code, 0) << pruned.err;
  EXPECT_THAT(pruned.out, StartsWith("run/checkpoints/step-00000020\n1 removed, "));
  EXPECT_EQ(files().list(folder_),
            (std::vector<std::string>{"best", "step-00000010", "step-00000030", "step-00000040"}));
  EXPECT_EQ(checkpoint({"prune", "nowhere", "--keep-last", "1"}).code, 65);
}

// `lockstep checkpoint export --to model.pt` from the command line: a trained network that Python runs, and every
// possible mistake.

ProcessResult python(const std::string& program, const fs::path& folder) {
  return run_process({.command = {"/usr/bin/python3", "-c", program}, .folder = folder.string()},
                     std::chrono::seconds(100));
}

class ExportCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult trained = copy_of("trained", home_.path(), [](const fs::path& folder) {
      EXPECT_EQ(generate_digits(folder / "data", 8, 1).code, 0);
      std::vector<std::string> words = train_words("data", "run");
      words.insert(words.end(), {"--set", "ema.decay=0.9"});
      return lockstep(words, folder);
    });
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  ProcessResult exported(std::vector<std::string> words) {
    words.insert(words.begin(), {"checkpoint", "export"});
    return ask_worker(words, home_.path());
  }

  TempDir home_;
};

TEST_F(ExportCommand, WritesANetworkThatPythonRuns) {
  const ProcessResult done = exported({"run", "--to", "model.pt"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("model.pt: TorchScript of captcha, images -> logits, "));
  EXPECT_THAT(done.err, HasSubstr("the weights are the moving average (EMA) of 2 steps"));
  if (python("import torch", home_.path()).code != 0) GTEST_SKIP() << "python3-torch is not there";
  const ProcessResult seen = python(
      "import torch, json\n"
      "about = {'network.json': '', 'config.yml': ''}\n"
      "model = torch.jit.load('model.pt', _extra_files=about)\n"
      "print(list(model(torch.zeros(3, 1, 60, 160)).shape), json.loads(about['network.json'])['names'])\n"
      "print('recipe: captcha' in about['config.yml'].decode())\n",
      home_.path());
  EXPECT_EQ(seen.code, 0) << seen.err;
  EXPECT_EQ(seen.out, "[3, 4, 10] ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']\nTrue\n");
}

TEST_F(ExportCommand, AsOriginIsAFileOfTheOriginsNamesThatIsTakenBack) {
  const ProcessResult done = exported({"run", "--to", "model.pkl", "--as-origin"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("model.pkl: 25 tensors, "));
  const auto described = ask_worker({"checkpoint", "inspect", "model.pkl"}, home_.path()).out;
  EXPECT_THAT(described, AllOf(HasSubstr("layer3.1.running_var"), HasSubstr("rfc.0.weight"), HasSubstr("fc.0.bias")));
  EXPECT_EQ(exported({"run", "--to", "last.pkl", "--as-origin", "--state", "model"}).code, 0);
  constexpr std::size_t kMost = 64U << 20U;
  EXPECT_NE(files().read(home_ / "model.pkl", kMost), files().read(home_ / "last.pkl", kMost))
      << "the first one has the average";
  std::vector<std::string> words = train_words("data", "back");
  words.insert(words.end(), {"--init-from", "model.pkl"});
  const ProcessResult back = lockstep(words, home_.path());
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.err, AllOf(HasSubstr("25 entries named as in pytorch-captcha-recognition became 25 entries"),
                              HasSubstr("25 of 25 entries of the model are loaded")));
}

TEST_F(ExportCommand, IsNotNeededToAskForTheKernelsOfASavedNetwork) {
  fs::remove_all(home_ / "data");  // the shapes are in the settings
  const ProcessResult asked =
      lockstep({"doctor", "kernels", "run", "--batch", "2", "--steps", "1", "--json"}, home_.path());
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, AllOf(HasSubstr("\"network\": \"run\""), HasSubstr("conv 3x3, 2x1x60x160 to 32")));
}

TEST_F(ExportCommand, SaysWhatIsWrong) {
  ASSERT_EQ(exported({"run", "--to", "weights.pth"}).code, 0);
  struct Fault {
    std::vector<std::string> words;
    int code;
    const char* what;
  };
  const std::vector<Fault> faults = {
      {{"run", "--to", "model.onnx", "--state", "ema"}, 64, "--state and --prefix apply to weights, but model.onnx"},
      {{"run", "--to", "demo.html", "--prefix", "a."}, 64, "--state and --prefix apply to weights, but demo.html"},
      {{"run", "--to", "model.bin"}, 64, "use .pth or .safetensors (weights), .pt (TorchScript), .onnx or .html"},
      {{"run", "--to", "model.pt", "--state", "ema"}, 64, "--state and --prefix apply to weights"},
      {{"run", "--to", "weights.pth", "--set", "threads=1"},
       64,
       "--set changes a network, but weights.pth holds weights"},
      {{"run", "--to", "model.pt", "--set", "labels=1"}, 64, "labels"},
      {{"weights.pth", "--to", "model.pt"}, 64, "weights.pth holds only weights, but a network needs the settings"},
      {{"run", "--to", "model.pt", "--as-origin"}, 64, "model.pt: --as-origin writes a torch.save file"},
      {{"run", "--to", "m.pth", "--as-origin", "--state", "all"},
       64,
       "--state is all; with --as-origin it must be model"},
      {{"run", "--to", "m.pth", "--as-origin", "--prefix", "a."}, 64, "leave out --set and --prefix"},
      {{"weights.pth", "--to", "m.pth", "--as-origin"}, 64, "--as-origin needs the settings of a checkpoint"},
      {{"nowhere", "--to", "model.pt"}, 65, "nowhere does not exist"},
      {{"run", "--to", "none/model.pt"}, 74, "none"},
  };
  for (const auto& [words, code, what] : faults) {
    const ProcessResult failed = exported(words);
    EXPECT_EQ(failed.code, code) << what << failed.err;
    EXPECT_THAT(failed.err, AllOf(HasSubstr("error: "), HasSubstr(what)));
  }
  EXPECT_FALSE(fs::exists(home_ / "model.pt"));
}

}  // namespace checkpoint_command_test
}  // namespace lockstep::test
