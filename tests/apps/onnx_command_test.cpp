// SPDX-License-Identifier: Apache-2.0
// Trained networks as ONNX, from the command line: `eval` computes the same from the file as from the checkpoint, on
// real images too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "support/data_folder.h"
#include "support/temp_dir.h"
#include "worker/onnx/onnx_session.h"

namespace lockstep::test {
namespace onnx_command_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Metrics = std::map<std::string, double>;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words set(const Words& settings) {
  Words words;
  for (const std::string& setting : settings) words = words + Words{"--set", setting};
  return words;
}

class OnnxCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!worker::find_onnx_runtime("")) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  }

  void train(const std::string& recipe, const std::string& run, const Words& settings) {
    const auto done = lockstep(Words{"train", recipe, "--run-dir", run} + set(settings), home_.path());
    ASSERT_EQ(done.code, 0) << done.err;
  }

  ProcessResult write(const std::string& run, const Words& more) {
    return lockstep(Words{"checkpoint", "export", run, "--to", run + ".onnx"} + more, home_.path());
  }

  ProcessResult evaluate(const std::string& recipe, const std::string& run, const Words& more) {
    return lockstep(Words{"eval", recipe, "--checkpoint", run} + more, home_.path());
  }

  Metrics metrics(const std::string& recipe, const std::string& run, const Words& more) {
    const auto done = evaluate(recipe, run, more + Words{"--json"});
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out).at("metrics").get<Metrics>();
  }

  /// Writes the run's file, checked on images from `data`. Expects it to give the checkpoint's metrics, and returns
  /// them.
  Metrics expect_the_same(const std::string& recipe, const std::string& run, const Words& data, const Words& sets) {
    const auto written = write(run, set(sets) + data);
    EXPECT_EQ(written.code, 0) << written.err;
    EXPECT_THAT(written.out, HasSubstr("differs by at most"));
    EXPECT_THAT(written.err, HasSubstr("compared on images of " + data.back()));
    const Metrics wanted = metrics(recipe, run, data + set(sets));
    const Metrics found = metrics(recipe, run, data + set(sets) + Words{"--onnx", run + ".onnx"});
    for (const auto& [name, value] : wanted) EXPECT_NEAR(found.at(name), value, 5e-4) << name;
    return wanted;
  }

  TempDir home_;
};

TEST_F(OnnxCommand, EvaluatesCaptchasByTheFileAndNotByTheCheckpoint) {
  const Words look = {"--charset", "0-9", "--width", "96", "--height", "36", "--style", "custom"};
  for (const auto& [name, seed] : {std::pair{"train", "1"}, {"test", "2"}}) {
    const auto made =
        lockstep(Words{"generate", "captcha", "--out", name, "--count", "64", "--seed", seed} + look, home_.path());
    ASSERT_EQ(made.code, 0) << made.err;
  }
  for (const char* run : {"first", "second"}) {
    train("captcha:small", run, {"data.train=train", "max_steps=6", std::string("seed=") + (*run == 'f' ? "1" : "2")});
  }
  const Metrics first = expect_the_same("captcha", "first", {"--data", "test"}, {"amp=none"});
  EXPECT_NE(metrics("captcha", "second", {"--data", "test"}), first);
  EXPECT_EQ(metrics("captcha", "second", {"--data", "test", "--onnx", "first.onnx"}), first);
  const auto no_file = evaluate("captcha", "second", {"--data", "test", "--onnx", "train"});
  EXPECT_THAT(no_file.err, HasSubstr("the runtime cannot run the model: "));
  const auto text = evaluate("captcha", "second", {"--data", "test", "--onnx", "first.onnx"});
  EXPECT_THAT(text.out, HasSubstr("first.onnx, computed by ONNX Runtime"));
}

TEST_F(OnnxCommand, EvaluatesCaptionsOfGreedySearch) {
  train("captioning:smoke", "run", {"max_steps=30"});
  const Metrics found =
      expect_the_same("captioning", "run", {"--data", "scenes:60:2"}, {"amp=none", "eval.beam_size=1"});
  EXPECT_GT(found.at("bleu_1"), 0);
}

TEST_F(OnnxCommand, EvaluatesBloodCellsAsTheCheckpointDoes) {
  LOCKSTEP_DATA_OR_SKIP(bccd, "bccd");
  train("detection:small", "run",
        {"data.train=" + bccd.string(), "data.train_split=train", "image_size=96", "max_steps=80", "stop_epoch=0",
         "augment.policy=[0,0,0]", "model.hidden=64", "model.heads=4", "model.decoder_layers=2", "model.queries=60",
         "model.denoising=20", "ema.warmups=10", "schedule.warmup_steps=5", "seed=2"});
  const Metrics found =
      expect_the_same("detection", "run", {"--data", bccd.string()}, {"amp=none", "data.test_split=val"});
  EXPECT_GT(found.at("ar100"), 0) << "a little is found; 0.0001 to 0.06, as the processor rounds";
  ASSERT_EQ(write("run", {"--postprocess"}).code, 0);
  const auto deployed = evaluate("detection", "run", {"--data", bccd.string(), "--onnx", "run.onnx"});
  EXPECT_EQ(deployed.code, 64);
  EXPECT_THAT(deployed.err, AllOf(HasSubstr("run.onnx computes labels, boxes, scores from images, orig_target_sizes"),
                                  HasSubstr("without --postprocess")));
}

TEST_F(OnnxCommand, EvaluatesNucleiInWindowsAsTheCheckpointDoes) {
  LOCKSTEP_DATA_OR_SKIP(nuclei, "nuclei");
  train("segmentation:nuclei", "run",
        {"data.labels=masks", "data.train=" + (nuclei / "train").string(), "max_steps=25", "augment.crop=64",
         "loss.lorm=1", "ema.warmups=5"});
  const Words data = {"--data", (nuclei / "val").string()};
  const Metrics found = expect_the_same(
      "segmentation", "run", data,
      {"amp=none", "eval.scales=[1]", "eval.flip=false", "eval.base_size=160", "eval.window=96", "eval.overlap=0.1"});
  EXPECT_GT(found.at("iou_nucleus"), 0) << "a little is found";
  const auto whole =
      evaluate("segmentation", "run", data + set({"eval.scales=[1]", "eval.window=0"}) + Words{"--onnx", "run.onnx"});
  EXPECT_EQ(whole.code, 64);
  EXPECT_THAT(whole.err,
              AllOf(HasSubstr("the exported network takes windows of 64 x 64 pixels, but this evaluation uses 256"),
                    HasSubstr("--set eval.window=N")));
}

}  // namespace onnx_command_test
}  // namespace lockstep::test
