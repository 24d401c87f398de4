// SPDX-License-Identifier: Apache-2.0
// The network: shapes of its outputs, names of its parts, and what it refuses.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"
#include "segmentation/model/model.h"

namespace lockstep::segmentation {
namespace segmentation_model_test {

using Sizes = std::vector<std::int64_t>;

ModelOptions small(ModelType type = ModelType::kAsppLorm) {
  ModelOptions options{.type = type, .classes = 3};
  options.backbone.layers = 18;
  return options;
}

at::Tensor some_labels(std::int64_t batch, std::int64_t size) {
  at::Tensor labels = at::zeros({batch, size, size}, at::kByte);
  labels.narrow(1, 0, size / 2).fill_(1);
  return labels;
}

TEST(SegmentationModel, GivesLogitsAtTheFeaturesSizeAndInTrainingTheLossOfLorm) {
  Segmenter net(small());
  const Outputs out = net.forward(at::rand({2, 3, 65, 65}), some_labels(2, 65));
  EXPECT_EQ(out.size(), 2U);
  EXPECT_EQ(out.at("logits").sizes().vec(), (Sizes{2, 3, 9, 9}));
  EXPECT_EQ(out.at("lorm").dim(), 0);
  EXPECT_GT(out.at("lorm").item<double>(), 0);
  net.eval();
  const at::NoGradGuard guard;
  EXPECT_EQ(net.forward(at::rand({1, 3, 65, 41})).at("logits").sizes().vec(), (Sizes{1, 3, 9, 6}));
  EXPECT_EQ(net.forward(at::rand({1, 3, 65, 41})).size(), 1U);
}

void expect_gradients_everywhere(const char* name) {
  const ModelType type = model_type_from_name(name);
  EXPECT_EQ(to_string(type), name);
  Segmenter net(small(type));
  const Outputs out = net.forward(at::rand({2, 3, 17, 17}), some_labels(2, 17));
  EXPECT_EQ(out.contains("lorm"), has_lorm(type));
  at::Tensor loss = out.at("logits").square().mean();
  if (out.contains("lorm")) loss = loss + out.at("lorm");
  loss.backward();
  for (const auto& item : net.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << name << " " << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << name << " " << item.key();
  }
}

TEST(SegmentationModel, AtTheWidthOfTheClassesTrainsEveryParameterWithAndWithoutLorm) {
  expect_gradients_everywhere("aspp_lorm");
  expect_gradients_everywhere("deeplabv2");
}

TEST(SegmentationModel, WithADecoderTrainsEveryParameterWithAndWithoutLorm) {
  expect_gradients_everywhere("deeplabv3p");
  expect_gradients_everywhere("deeplabv3p_lorm");
}

TEST(SegmentationModel, WithADecoderLogitsAreAtStrideFour) {
  Segmenter net(small(ModelType::kDeepLabV3Plus));
  net.eval();
  const at::NoGradGuard guard;
  EXPECT_EQ(net.forward(at::rand({1, 3, 64, 48})).at("logits").sizes().vec(), (Sizes{1, 3, 17, 13}));
}

TEST(SegmentationModel, NamesTheBackboneAsTorchvisionAndPutsTheRestUnderAsppAndLorm) {
  Segmenter net(small());
  std::vector<std::string> heads;
  for (const auto& item : net.named_parameters()) {
    const std::string& name = item.key();
    if (name.starts_with("conv1.") || name.starts_with("bn1.") || name.starts_with("layer")) continue;
    heads.push_back(name.substr(0, name.find('.')));
  }
  EXPECT_EQ(heads.size(), 23U);
  EXPECT_THAT(heads, ::testing::Each(::testing::AnyOf("aspp", "lorm")));
}

TEST(SegmentationModel, TrainsUnderAutocastToBfloat16InChannelsLast) {
  Segmenter net(small());
  use_channels_last(net);
  Outputs out;
  {
    const Autocast autocast(at::kCPU, Amp::kBf16);
    out = net.forward(to_channels_last(at::rand({2, 3, 33, 33})), some_labels(2, 33));
  }
  EXPECT_EQ(out.at("logits").scalar_type(), at::kBFloat16);
  EXPECT_EQ(out.at("lorm").scalar_type(), at::kFloat);
  (out.at("logits").to(at::kFloat).square().mean() + out.at("lorm")).backward();
  for (const auto& item : net.named_parameters()) {
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

/// What sync_batch_norm() looks for, and what nn::optimize() could still put together.
TEST(SegmentationModel, ItsNormsCanBeSyncedAndItsChainsAreFusedAlready) {
  for (const ModelType type : {ModelType::kAsppLorm, ModelType::kDeepLabV3Plus}) {
    const auto net = std::make_shared<Segmenter>(small(type));
    std::size_t norms = 0;
    for (const auto& module : net->modules()) {
      norms += dynamic_cast<const nn::SyncedStatistics*>(module.get()) != nullptr ? 1 : 0;
      EXPECT_EQ(dynamic_cast<const torch::nn::BatchNorm2dImpl*>(module.get()), nullptr);
    }
    std::size_t means = 0;
    for (const auto& item : net->named_buffers()) means += item.key().ends_with("running_mean") ? 1 : 0;
    EXPECT_EQ(norms, means);
    const nn::Optimized done = nn::optimize(*net);
    EXPECT_TRUE(done.fused.empty());
    for (const auto& chain : done.left) {  // those before a sum, and the one that gives the logits
      const bool alone = chain.name.ends_with(".bn2") || chain.name.ends_with(".downsample.1");
      EXPECT_TRUE(alone || chain.name == "aspp.bn") << chain.name << ": " << chain.what;
    }
  }
}

/// As synced_batch_norm() sees a rank of two with equal batches.
class TwoReplicas final : public nn::StatisticsSync {
 public:
  [[nodiscard]] int replicas() const override { return 2; }
  void all_reduce(const at::Tensor& values) override { values.mul_(2); }
};

TEST(SegmentationModel, WithSyncedNormsABatchOfOnePictureTrains) {
  const auto net = std::make_shared<Segmenter>(small());
  const auto sync = std::make_shared<TwoReplicas>();
  for (const auto& module : net->modules()) {
    if (auto* norm = dynamic_cast<nn::SyncedStatistics*>(module.get())) norm->set_statistics_sync(sync);
  }
  const Outputs out = net->forward(at::rand({1, 3, 33, 33}), some_labels(1, 33));
  EXPECT_TRUE(out.at("logits").isfinite().all().item<bool>());
}

TEST(SegmentationModel, RefusesABatchOfOnePictureInTraining) {
  Segmenter net(small());
  try {
    (void)net.forward(at::rand({1, 3, 33, 33}), some_labels(1, 33));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("batch of 1"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("batch_size"));
  }
}

TEST(SegmentationModel, RefusesWhatDoesNotFit) {
  EXPECT_THROW((void)model_type_from_name("deeplab"), UsageError);
  const auto refused = [](auto change) {
    ModelOptions options = small();
    change(options);
    EXPECT_THROW(Segmenter{options}, UsageError);
  };
  refused([](ModelOptions& options) { options.classes = 1; });
  refused([](ModelOptions& options) { options.rates = {6, 0}; });
  refused([](ModelOptions& options) { options.dropout = 1; });
  Segmenter net(small());
  EXPECT_THROW((void)net.forward(at::rand({2, 3, 33, 33})), UsageError);
}

}  // namespace segmentation_model_test
}  // namespace lockstep::segmentation
