// SPDX-License-Identifier: Apache-2.0
// The captcha recipe's parts: networks, labels, scores, presets.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "captcha/config.h"
#include "captcha/data/dataset.h"
#include "captcha/metrics/scores.h"
#include "captcha/model/model.h"
#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/train/prepare.h"
#include "lockstep/train/trainer.h"
#include "support/temp_dir.h"

namespace lockstep::captcha {
namespace captcha_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CaptchaModel, TheNetworksHaveTheParametersOfTheOrigin) {
  EXPECT_EQ(parameter_count(*make_model({.type = "conv7"})), 19'072'400);
  EXPECT_EQ(parameter_count(*make_model({.type = "conv3"})), 9'379'728);
}

TEST(CaptchaModel, GivesALogitForEachCharacterAndClassAtAnySize) {
  const auto model = make_model({.type = "conv3", .height = 80, .width = 200, .length = 5, .classes = 62});
  EXPECT_EQ(model->forward(at::rand({2, 1, 80, 200})).sizes().vec(), (std::vector<std::int64_t>{2, 310}));
}

TEST(CaptchaModel, AnUnknownTypeSuggestsTheNearest) {
  try {
    (void)make_model({.type = "conv8"});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("did you mean 'conv7'"));
  }
}

TEST(CaptchaLabel, IsTheNameUpToTheFirstUnderscoreOrTheExtension) {
  const CaptchaConfig config;
  const std::string characters = config.characters();
  EXPECT_THAT(label_of("a/01AZ_153.png", config.labels, characters), ElementsAre(0, 1, 10, 35));
  EXPECT_THAT(label_of("a/01AZ.png", config.labels, characters), ElementsAre(0, 1, 10, 35));
}

TEST(CaptchaLabel, ACharacterOutsideTheCharsetNamesFileAndCharacter) {
  const CaptchaConfig config;
  try {
    (void)label_of("a/01aZ_1.png", config.labels, config.characters());
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("a/01aZ_1.png: 'a' of its label '01aZ' is not in the charset 0-9A-Z"));
  }
}

TEST(CaptchaLabel, AWrongLengthNamesBothLengthsAndTheSettingThatWouldFit) {
  const CaptchaConfig config;
  const auto fault_of = [&](const char* file) {
    try {
      (void)label_of(file, config.labels, config.characters());
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(fault_of("012345_1.png"),
              ::testing::AllOf(HasSubstr("its label '012345' has 6 characters, not 4"),
                               HasSubstr("up to '_' (data.label_end)"), HasSubstr("--set data.length=6")));
  EXPECT_THAT(fault_of("0123-1.png"), HasSubstr("--set data.label_end='-'"));
  EXPECT_THAT(fault_of("_1.png"), ::testing::Not(HasSubstr("--set")));
}

TEST(CaptchaScores, CountStringsCharactersAndConfusions) {
  // Two strings of two characters of three classes: "ab" read as "ab", "ca" read as "cb".
  const at::Tensor target = at::tensor({0, 1, 2, 0}, at::kLong).view({2, 2});
  at::Tensor logits = at::full({2, 6}, 0.0F);
  for (const auto& [row, column] : {std::pair{0, 0}, {0, 4}, {1, 2}, {1, 4}}) logits[row][column] = 5.0F;
  const at::Tensor counts = count_reads(logits, target, 3);
  const auto metrics = read_metrics(counts);
  EXPECT_EQ(metrics[0].name, "string_accuracy");
  EXPECT_DOUBLE_EQ(metrics[0].value, 0.5);
  EXPECT_DOUBLE_EQ(metrics[1].value, 0.75);
  EXPECT_THAT(confusions(counts, "abc"), HasSubstr("predicted b where a stood"));
}

TEST(CaptchaScores, SumsOfCountsAreTheCountsOfAll) {
  const at::Tensor target = at::tensor({0, 1}, at::kLong).view({1, 2});
  const at::Tensor counts = count_reads(at::rand({1, 6}), target, 3);
  EXPECT_DOUBLE_EQ((counts + counts)[0].item<double>(), 2);
}

TEST(CaptchaTask, ItsLossIsTheMeanCrossEntropyOfAllLogits) {
  const CaptchaConfig config;
  CaptchaTask task(config);
  Batch batch;
  batch.target = at::full({3, 4}, 7, at::kLong);
  // Logits of zero: every binary cross entropy is ln 2.
  EXPECT_NEAR(task.loss(at::full({3, 144}, 0.0F), batch).item<double>(), 0.693147, 1e-6);
}

TEST(CaptchaPresets, AllBindToTheRecipesSettings) {
  for (const auto& [name, yaml] : presets()) {
    CaptchaConfig config;
    ConfigFields fields;
    config.describe(fields);
    EXPECT_NO_THROW(fields.bind(ConfigTree::from_text(yaml, name))) << name;
  }
  EXPECT_TRUE(presets().count("digits"));
}

/// As many samples as the original run had, of no size to speak of.
class TinyTask final : public Task {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(50'030, [](std::int64_t i) {
      return Sample{at::full({1}, static_cast<double>(i % 7)), at::full({1}, 1.0)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override {
    auto net = std::make_shared<torch::nn::LinearImpl>(1, 1);
    return net;
  }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<torch::nn::LinearImpl&>(model).forward(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    return (output - batch.target).pow(2).mean();
  }
  at::Tensor count(const at::Tensor& output, const Batch&) override { return output.to(at::kDouble).sum().view({1}); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor&) const override { return {}; }
  [[nodiscard]] std::string model_name() const override { return "tiny"; }
};

TEST(CaptchaPresets, UltraIsTheOriginalsRunOnThreeReplicas) {
  const test::TempDir folder;
  CaptchaConfig config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text(presets().at("ultra"), "ultra"));
  EXPECT_EQ(config.amp, "fp16");
  config.amp = "none";  // no GPU here
  config.data.train = "made up";
  config.max_steps = 2;
  config.workers = 0;
  TinyTask task;
  const char* program = "test";
  Trainer trainer(init(1, &program), task, config, {.recipe = "captcha", .run_dir = folder / "run"});
  ::testing::internal::CaptureStdout();
  trainer.fit();
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("batch               512 x 3 replicas = 1,536\n"));
  EXPECT_THAT(said, HasSubstr("training samples    50,030\n"));
  EXPECT_THAT(said, HasSubstr("steps per epoch     33\n"));
  EXPECT_THAT(said, HasSubstr("epochs              150, at most 2 steps\n"));
  EXPECT_THAT(said, HasSubstr("replicas            3 on 1 process\n"));
}

}  // namespace captcha_test
}  // namespace lockstep::captcha
