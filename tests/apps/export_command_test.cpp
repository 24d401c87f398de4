// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint export --to model.pt` as a person types it: a trained network that Python runs, and every way to
// be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace export_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ProcessResult python(const std::string& program, const fs::path& folder) {
  return run_process({.command = {"/usr/bin/python3", "-c", program}, .folder = folder.string()},
                     std::chrono::seconds(100));
}

class ExportCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult made = generate_digits(home_ / "data", 8, 1);
    ASSERT_EQ(made.code, 0) << made.err;
    std::vector<std::string> words = train_words("data", "run");
    words.insert(words.end(), {"--set", "ema.decay=0.9"});
    const ProcessResult trained = lockstep(words, home_.path());
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  ProcessResult exported(std::vector<std::string> words) {
    words.insert(words.begin(), {"checkpoint", "export"});
    return lockstep(words, home_.path());
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

TEST_F(ExportCommand, SaysWhatIsWrong) {
  ASSERT_EQ(exported({"run", "--to", "weights.pth"}).code, 0);
  struct Fault {
    std::vector<std::string> words;
    int code;
    const char* what;
  };
  const std::vector<Fault> faults = {
      {{"run", "--to", "model.onnx"}, 64, "torch.onnx.export(torch.jit.load(\"model.pt\"), example, \"model.onnx\""},
      {{"run", "--to", "model.bin"}, 64, "end it with .pth or .safetensors (weights) or .pt (TorchScript)"},
      {{"run", "--to", "model.pt", "--state", "ema"}, 64, "--state and --prefix are about weights"},
      {{"run", "--to", "weights.pth", "--set", "threads=1"},
       64,
       "--set changes a network, and weights.pth holds weights"},
      {{"run", "--to", "model.pt", "--set", "labels=1"}, 64, "labels"},
      {{"weights.pth", "--to", "model.pt"}, 64, "weights.pth holds weights, and a network needs the settings"},
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

}  // namespace export_command_test
}  // namespace lockstep::test
