// SPDX-License-Identifier: Apache-2.0
// No recipe's step waits for its GPU. Counted on a fake one.
#include "support/waits_of_run.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "captcha/config.h"
#include "captcha/synthetic/generate.h"
#include "captcha/task.h"
#include "captioning/config.h"
#include "captioning/model/layers.h"
#include "captioning/model/losses.h"
#include "captioning/model/model.h"
#include "captioning/task.h"
#include "lockstep/base/config.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/random.h"
#include "segmentation/config.h"
#include "segmentation/model/lorm.h"
#include "segmentation/task.h"

namespace lockstep {
namespace host_waits_test {

using ::testing::IsEmpty;
using testing::waits_of_run;

template <class Config>
Config preset_of(const std::map<std::string, std::string>& presets, const std::string& name) {
  Config config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text(presets.at(name), name));
  config.replicas = 1;
  config.batch_size = 2;
  return config;
}

TEST(HostWaits, CaptchaHasNone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const test::TempDir folder;
  captcha::generate_captchas(
      {.out = folder / "set", .count = 60, .seed = 1, .charset = "0123456789", .width = 96, .height = 36});
  auto config = preset_of<captcha::CaptchaConfig>(captcha::presets(), "small");
  config.data.train = config.data.test = (folder / "set").string();
  config.amp = "bf16";
  EXPECT_THAT(waits_of_run<captcha::CaptchaTask>(config), IsEmpty());
}

segmentation::SegmentationConfig segmentation_config() {
  auto config = preset_of<segmentation::SegmentationConfig>(segmentation::presets(), "nuclei");
  config.data.train = "scenes:60:1:few";
  config.data.test = "scenes:4:2:few";
  config.class_names = {};
  config.num_classes = AutoInt::automatic();
  config.augment.crop = 32;
  config.model.backbone.layers = 18;
  segmentation::SegmentationTask::settle(config);
  return config;
}

TEST(HostWaits, SegmentationHasNone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  EXPECT_THAT(waits_of_run<segmentation::SegmentationTask>(segmentation_config()), IsEmpty());
}

captioning::CaptioningConfig captioning_config() {
  auto config = preset_of<captioning::CaptioningConfig>(captioning::presets(), "scenes");
  config.data.train = "scenes:60:1";
  config.data.test = "scenes:4:2";
  config.sets.height = config.sets.width = 64;
  config.model.dim = 32;
  config.model.feed_forward = 64;
  return config;
}

TEST(HostWaits, CaptioningsFirstStageHasNone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  EXPECT_THAT(waits_of_run<captioning::CaptioningTask>(captioning_config()), IsEmpty());
}

TEST(HostWaits, XLinearCaptioningHasNone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  captioning::CaptioningConfig config = captioning_config();
  config.model_type = "x_linear";
  EXPECT_THAT(waits_of_run<captioning::CaptioningTask>(config), IsEmpty());
}

/// Scheduled sampling. On the device, it draws the same words as libtorch's own multinomial.
TEST(HostWaits, WordsOfTheNetworksOwnHaveNone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const at::Tensor logits = at::randn({3, 5, 9});
  const at::Tensor words = at::zeros({3, 5}, at::kLong);
  const at::Tensor logits_there = logits.to(testing::make_believe_gpu());
  const at::Tensor words_there = words.to(testing::make_believe_gpu());
  seed_all(7);
  const at::Tensor here = captioning::partly_drawn(words, logits, 1);
  seed_all(7);
  const testing::HostWaits waits;
  const at::Tensor there = captioning::partly_drawn(words_there, logits_there, 1);
  EXPECT_THAT(waits.found(), IsEmpty());
  EXPECT_TRUE(there.cpu().equal(here));
}

TEST(HostWaits, FeaturesOfSeveralLengthsHaveNone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  captioning::ModelOptions options{.vocabulary = 9, .feature_width = 8, .dim = 16, .heads = 2};
  options.encoder_layers = options.decoder_layers = 1;
  options.window = 0;
  const auto model = captioning::make_captioner(options);
  model->to(testing::make_believe_gpu());
  const at::Tensor rows = at::randn({2, 5, 8}).to(testing::make_believe_gpu());
  (void)model->encode(rows, {5, 3});
  const testing::HostWaits waits;
  (void)model->encode(rows, {5, 3});
  EXPECT_THAT(waits.found(), IsEmpty());
}

TEST(HostWaits, NorHaveOtherNetworksOfSegmentation) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  for (const char* network : {"aspp_lorm", "deeplabv2"}) {
    auto config = segmentation_config();
    config.model_type = network;
    EXPECT_THAT(waits_of_run<segmentation::SegmentationTask>(config), IsEmpty()) << network;
  }
}

/// The host reads the words to compute the reward; with the greedy baseline, it reads the words of two searches.
TEST(HostWaits, CaptioningsSecondStageHasOneForEachReward) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  captioning::CaptioningConfig config = captioning_config();
  config.self_critical.start = "first_epoch";
  constexpr std::size_t kSteps = testing::WaitCounter::kSteps;
  const std::vector<std::string> one(kSteps, "copy to the host");
  EXPECT_EQ(waits_of_run<captioning::CaptioningTask>(config), one);
  config.self_critical.baseline = "greedy";
  const std::vector<std::string> two(2 * kSteps, "copy to the host");
  EXPECT_EQ(waits_of_run<captioning::CaptioningTask>(config), two);
}

/// The loss of these logits and its gradient, both on the host.
template <class Loss>
std::pair<double, at::Tensor> found_by(const Loss& loss, const at::Tensor& logits, const c10::Device& device) {
  const at::Tensor x = logits.to(device).detach().requires_grad_();
  const at::Tensor value = loss(x);
  value.backward();
  return {value.item<double>(), x.grad().cpu()};
}

/// Targets with -1 for positions that do not count, in two of the three rows.
at::Tensor some_targets() { return at::tensor({4, 0, -1, -1, 2, 2, 1, 0, 3, 0, -1, -1}, at::kLong).view({3, 4}); }

TEST(DeviceLosses, OfWordsAreTheHosts) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const at::Tensor logits = at::randn({3, 4, 6});
  for (const double smoothing : {0.0, 0.1}) {
    const auto loss = [&](const at::Tensor& x) {
      return captioning::word_loss(x, some_targets().to(x.device()), smoothing);
    };
    const auto there = found_by(loss, logits, testing::make_believe_gpu());
    const auto here = found_by(loss, logits, c10::kCPU);
    EXPECT_NEAR(there.first, here.first, 1e-6);
    EXPECT_LT((there.second - here.second).abs().max().item<double>(), 1e-6);
  }
}

TEST(DeviceLosses, OfSampledCaptionsAreTheHosts) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const auto loss = [&](const at::Tensor& x) {
    return captioning::self_critical_loss(x, {.words = some_targets().clamp(0).to(x.device()),
                                              .chosen = some_targets().ge(0).to(x.device()),
                                              .reward = at::tensor({1.5F, 0.5F, 1.0F}).to(x.device()),
                                              .advantage = at::tensor({2.0F, -1.0F, 0.5F}).to(x.device())});
  };
  const at::Tensor logits = at::randn({3, 4, 6});
  const auto there = found_by(loss, logits, testing::make_believe_gpu());
  const auto here = found_by(loss, logits, c10::kCPU);
  EXPECT_NEAR(there.first, here.first, 1e-6);
  EXPECT_LT((there.second - here.second).abs().max().item<double>(), 1e-6);
}

/// A device's losses and gradients equal the host's, up to the order of additions.
TEST(DeviceLosses, OfThePlacesThatAreRectifiedAreTheHosts) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const at::Tensor features = at::randn({2, 4, 5, 5});
  at::Tensor labels = at::randint(0, 3, {2, 9, 9}, at::kByte);
  labels[0][0][0] = 255;
  segmentation::Lorm lorm(4);
  const auto loss = [&](const at::Tensor& x) { return lorm.forward(x, labels.to(x.device())); };
  const auto here = found_by(loss, features, c10::kCPU);
  NamedTensors gradients;
  for (const auto& item : lorm.named_parameters()) gradients.emplace_back(item.key(), item.value().grad().clone());
  lorm.zero_grad(/*set_to_none=*/true);
  lorm.to(testing::make_believe_gpu());
  const auto there = found_by(loss, features, testing::make_believe_gpu());
  EXPECT_NEAR(there.first, here.first, 1e-6);
  EXPECT_LT((there.second - here.second).abs().max().item<double>(), 1e-5);
  for (const auto& [name, gradient] : gradients) {
    const at::Tensor other = lorm.named_parameters()[name].grad().cpu();
    EXPECT_LT((other - gradient).abs().max().item<double>(), 1e-5) << name;
  }
}

/// The prediction of a model with fresh weights for an image, on this device.
std::string read_on(const c10::Device& device, const Recipe& recipe, const TrainConfig& config,
                    const std::filesystem::path& file) {
  const auto task = recipe.make_task(config);
  (void)task->make_training_set(config.data.train);
  seed_all(3);
  const auto model = task->make_model();
  model->eval();
  model->to(device);
  const NoGrad no_grad;
  return recipe.predict(*task, *model, {file}).at(0).text;
}

void expect_the_same_on_a_gpu(const Recipe& recipe, const TrainConfig& config, const std::filesystem::path& file) {
  const std::string here = read_on(at::kCPU, recipe, config, file);
  EXPECT_FALSE(here.empty());
  EXPECT_EQ(read_on(testing::make_believe_gpu(), recipe, config, file), here);
}

TEST(Predict, ReadsTheSameOnAGpu) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const test::TempDir folder;
  captcha::generate_captchas(
      {.out = folder / "set", .count = 1, .seed = 1, .charset = "0123456789", .width = 96, .height = 36});
  const std::filesystem::path file = std::filesystem::directory_iterator(folder / "set")->path();
  auto captcha = preset_of<captcha::CaptchaConfig>(captcha::presets(), "small");
  captcha.data.train = (folder / "set").string();
  expect_the_same_on_a_gpu(*captcha::make_recipe(), captcha, file);
  expect_the_same_on_a_gpu(*segmentation::make_recipe(), segmentation_config(), file);
  expect_the_same_on_a_gpu(*captioning::make_recipe(), captioning_config(), file);
}

}  // namespace host_waits_test
}  // namespace lockstep
