// SPDX-License-Identifier: Apache-2.0
// The network, its windows over images, and drawings of its predictions.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/train/prepare.h"
#include "segmentation/metrics/confusion.h"
#include "segmentation/metrics/overlay.h"
#include "segmentation/model/model.h"
#include "segmentation/model/windows.h"
#include "segmentation/synthetic/planes.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_model_test {

using ::testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;
using Starts = std::vector<std::int64_t>;

// The network: shapes of its outputs, names of its parts, and its errors.

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

/// The norms for sync_batch_norm(), and chains that nn::optimize() could still fuse.
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
    for (const auto& chain : done.left) {  // those before a sum, and the one that outputs the logits
      const bool alone = chain.name.ends_with(".bn2") || chain.name.ends_with(".downsample.1");
      EXPECT_TRUE(alone || chain.name == "aspp.bn") << chain.name << ": " << chain.what;
    }
  }
}

/// One of two ranks with equal batches, as seen by synced_batch_norm().
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

// Images in windows and at several scales.

/// A network whose logits depend only on the pixel, so that windows change nothing.
at::Tensor by_pixel(const at::Tensor& pictures) {
  const at::Tensor red = pictures.narrow(1, 0, 1);
  return at::cat({red * 4, at::zeros_like(red), 1 - red}, 1);
}

TEST(SegmentationWindows, CoverASideEvenlyAndReachBothEnds) {
  EXPECT_EQ(window_starts(100, 100, 0.5), Starts{0});
  EXPECT_EQ(window_starts(60, 100, 0.5), Starts{0});
  EXPECT_EQ(window_starts(200, 100, 0.0), (Starts{0, 100}));
  EXPECT_EQ(window_starts(201, 100, 0.0), (Starts{0, 50, 101}));
  EXPECT_EQ(window_starts(200, 100, 0.5), (Starts{0, 50, 100}));
  EXPECT_EQ(window_starts(512, 465, 1.0 / 3), (Starts{0, 47}));
}

TEST(SegmentationWindows, OverlapAtLeastAsMuchAsWanted) {
  for (const std::int64_t length : {10, 130, 255, 256, 511, 1000}) {
    for (const auto& [window, overlap] : {std::pair{5, 0.5}, {7, 0.8}, {128, 0.25}}) {
      if (length <= window) continue;
      const Starts starts = window_starts(length, window, overlap);
      EXPECT_EQ(starts.front(), 0);
      EXPECT_EQ(starts.back(), length - window);
      for (std::size_t i = 1; i < starts.size(); ++i) {
        const auto shared = static_cast<double>(starts[i - 1] + window - starts[i]);
        EXPECT_GE(shared, overlap * window) << length << " " << window;
        EXPECT_GT(starts[i], starts[i - 1]) << length << " " << window;
      }
    }
  }
}

TEST(SegmentationWindows, RefuseNoWindowAndAnOverlapThatNeverMovesOn) {
  EXPECT_THROW((void)window_starts(10, 0, 0.5), UsageError);
  EXPECT_THROW((void)window_starts(10, 5, 1.0), UsageError);
  EXPECT_THROW((void)window_starts(10, 5, -0.1), UsageError);
}

TEST(SegmentationWindows, ChangeNothingForANetworkThatSeesSinglePixels) {
  const at::Tensor picture = at::rand({3, 37, 53});
  const at::Tensor whole = at::softmax(by_pixel(picture.unsqueeze(0)), 1)[0];
  for (const std::int64_t window : {0, 8, 20, 45, 60}) {
    const at::Tensor shares = class_shares(picture, by_pixel, {.window = window, .batch = 3});
    ASSERT_EQ(shares.sizes(), (at::IntArrayRef{3, 37, 53}));
    EXPECT_TRUE(shares.allclose(whole, 1e-5, 1e-6)) << window;
  }
  EXPECT_TRUE(class_shares(picture, by_pixel, {.window = 20, .flip = true}).allclose(whole, 1e-5, 1e-6));
}

TEST(SegmentationWindows, AreNoLargerThanWhatTheNetworkMaySee) {
  std::int64_t largest = 0;
  std::int64_t most = 0;
  const auto watch = [&](const at::Tensor& pictures) {
    largest = std::max({largest, pictures.size(2), pictures.size(3)});
    most = std::max(most, pictures.size(0));
    return by_pixel(pictures);
  };
  (void)class_shares(at::rand({3, 90, 30}), watch, {.window = 32, .scales = {0.5, 1.0, 2.0}, .batch = 4});
  EXPECT_EQ(largest, 32);
  EXPECT_EQ(most, 4);
}

TEST(SegmentationWindows, TakeTheMeanOverScalesInTheSizeOfTheBase) {
  std::vector<std::int64_t> widths;
  const auto watch = [&](const at::Tensor& pictures) {
    widths.push_back(pictures.size(3));
    return by_pixel(pictures);
  };
  const at::Tensor shares = class_shares(at::rand({3, 20, 40}), watch, {.scales = {0.5, 1.0, 1.5}, .base_size = 60});
  EXPECT_EQ(widths, (Starts{30, 60, 90}));
  EXPECT_EQ(shares.sizes(), (at::IntArrayRef{3, 20, 40}));
  EXPECT_TRUE(shares.sum(0).allclose(at::ones_like(shares[0]), 1e-5, 1e-5)) << "shares of all classes are 1";
}

TEST(SegmentationWindows, MirroredViewsMakeTheResultSymmetric) {
  // Logits increase to the right in any image; averaging with the mirror image removes that.
  const auto leaning = [](const at::Tensor& pictures) {
    const at::Tensor ramp =
        at::arange(pictures.size(3), at::kFloat).expand({pictures.size(0), 1, pictures.size(2), -1});
    return at::cat({ramp, at::zeros_like(ramp)}, 1);
  };
  const at::Tensor shares = class_shares(at::rand({3, 4, 6}), leaning, {.flip = true});
  EXPECT_TRUE(shares.allclose(shares.flip({2}), 1e-5, 1e-6));
}

TEST(SegmentationWindows, RefuseScalesThatAreNone) {
  EXPECT_THROW((void)class_shares(at::rand({3, 8, 8}), by_pixel, {.scales = {}}), UsageError);
  EXPECT_THROW((void)class_shares(at::rand({3, 8, 8}), by_pixel, {.scales = {0.0}}), UsageError);
}

// The confusion matrix against hand-computed numbers, and the drawings.

constexpr std::array<std::uint8_t, 8> kTruth = {0, 0, 0, 1, 1, 2, 255, 255};
constexpr std::array<std::uint8_t, 8> kPredicted = {0, 0, 1, 1, 1, 0, 1, 2};

Confusion example() {
  Confusion confusion(4);
  confusion.add(kTruth.data(), kPredicted.data(), 8);
  return confusion;
}

TEST(SegmentationConfusion, CountsPixelsThatHaveALabel) {
  const Confusion confusion = example();
  EXPECT_EQ(confusion.pixels(), 6);
  EXPECT_EQ(confusion.at(0, 0), 2);
  EXPECT_EQ(confusion.at(0, 1), 1);
  EXPECT_EQ(confusion.at(2, 0), 1);
  EXPECT_DOUBLE_EQ(confusion.pixel_accuracy(), 4.0 / 6);
}

TEST(SegmentationConfusion, GivesTheShareOfWhatEitherSays) {
  const Confusion confusion = example();
  EXPECT_DOUBLE_EQ(confusion.iou(0), 2.0 / 4);
  EXPECT_DOUBLE_EQ(confusion.iou(1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(confusion.iou(2), 0.0);
  EXPECT_DOUBLE_EQ(confusion.recall(0), 2.0 / 3);
  EXPECT_DOUBLE_EQ(confusion.precision(1), 2.0 / 3);
}

TEST(SegmentationConfusion, LeavesClassesThatAreNowhereOutOfTheMean) {
  EXPECT_FALSE(example().has(3));
  EXPECT_DOUBLE_EQ(example().mean_iou(), (2.0 / 4 + 2.0 / 3 + 0) / 3);
  EXPECT_DOUBLE_EQ(Confusion(3).mean_iou(), 0);
}

TEST(SegmentationConfusion, IsTheSameHoweverPixelsAreSpreadOverRanks) {
  Confusion first(4);
  Confusion second(4);
  first.add(kTruth.data(), kPredicted.data(), 3);
  second.add(kTruth.data() + 3, kPredicted.data() + 3, 5);
  second.merge(Confusion::from_bytes(first.bytes(), 4));
  EXPECT_EQ(second.bytes(), example().bytes());
  EXPECT_THROW((void)Confusion::from_bytes(first.bytes(), 3), InternalError);
}

TEST(SegmentationConfusion, RefusesAClassThatThereIsNone) {
  Confusion confusion(2);
  try {
    confusion.add(kTruth.data(), kPredicted.data(), 8);
    FAIL() << "class 2 of 2";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("class 2, but there are 2"));
  }
}

TEST(SegmentationOverlay, HasTheColoursOfPascalVoc) {
  using Color = std::array<std::uint8_t, 3>;
  EXPECT_EQ(class_color(0), (Color{0, 0, 0}));
  EXPECT_EQ(class_color(1), (Color{128, 0, 0}));
  EXPECT_EQ(class_color(2), (Color{0, 128, 0}));
  EXPECT_EQ(class_color(15), (Color{192, 128, 128}));
  EXPECT_EQ(class_color(20), (Color{0, 64, 128}));
}

Image grey(std::int64_t width, std::int64_t height, std::uint8_t value) {
  return {{width, height}, 3, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3), value)};
}

TEST(SegmentationOverlay, ColoursClassesAndLeavesBackgroundAndUnlabelledPixels) {
  const Image picture = grey(4, 1, 100);
  const Image drawn = overlay(view_of(picture), {{4, 1}, 1, {0, 1, 1, 255}}, {.opacity = 0.5, .outlines = false});
  EXPECT_EQ(drawn.pixels, (std::vector<std::uint8_t>{100, 100, 100, 114, 50, 50, 114, 50, 50, 100, 100, 100}));
}

TEST(SegmentationOverlay, DrawsALineWhereAClassEnds) {
  const Image picture = grey(3, 1, 100);
  const Image drawn = overlay(view_of(picture), {{3, 1}, 1, {1, 1, 0}});
  EXPECT_EQ(drawn.pixels[0], 114);
  EXPECT_EQ(drawn.pixels[3], 128);
  EXPECT_EQ(drawn.pixels[6], 100);
}

TEST(SegmentationOverlay, RefusesClassesOfAnotherSize) {
  const Image picture = grey(3, 1, 100);
  EXPECT_THROW((void)overlay(view_of(picture), {{2, 1}, 1, {0, 0}}), UsageError);
}

JudgedPicture judged(std::int64_t index, double quality) {
  return {index, quality, {{2, 1}, 1, {static_cast<std::uint8_t>(index), 0}}};
}

TEST(SegmentationGallery, KeepsTheWorstAndTheBestOfAllRanks) {
  Gallery own(2);
  Gallery theirs(2);
  for (const auto& [index, quality] : {std::pair{0, 0.5}, {1, 0.9}, {2, 0.1}}) own.add(judged(index, quality));
  for (const auto& [index, quality] : {std::pair{3, 0.3}, {4, 0.95}, {5, 0.9}}) theirs.add(judged(index, quality));
  Gallery all(2);
  all.merge(theirs.bytes());
  all.merge(own.bytes());
  ASSERT_EQ(all.worst().size(), 2U);
  EXPECT_EQ(all.worst()[0].index, 2);
  EXPECT_EQ(all.worst()[1].index, 3);
  EXPECT_EQ(all.best()[0].index, 4);
  EXPECT_EQ(all.best()[1].index, 1) << "of equal ones that with the lower index";
  EXPECT_EQ(all.best()[0].classes.pixels, (std::vector<std::uint8_t>{4, 0}));
  EXPECT_THROW(Gallery().merge(own.bytes().substr(0, 20)), InternalError);
}

/// An image and its mask.
class OnePicture final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 1; }
  [[nodiscard]] AnnotatedImage get(std::int64_t /*index*/) const override {
    AnnotatedImage picture;
    picture.pixels = grey(2, 1, 10);
    picture.maps.push_back({Image{{2, 1}, 1, {0, 1}}});
    picture.name = "one.png";
    return picture;
  }
};

TEST(SegmentationGallery, DrawsItsPages) {
  const test::TempDir folder;
  Gallery gallery;
  gallery.add(judged(0, 0.25));
  const auto files = draw_pictures(gallery, OnePicture(), folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].filename(), "worst.png");
  const Image page = read_image(files[0], ColorMode::kRgb);
  EXPECT_GE(page.size.width, 3 * 256);
  const auto color = class_color(1);
  bool legend = false;
  for (std::size_t i = page.pixels.size() - static_cast<std::size_t>(3 * 12 * page.size.width); i < page.pixels.size();
       i += 3) {
    legend = legend || std::equal(color.begin(), color.end(), page.pixels.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_TRUE(legend) << "the colour of class 1 is explained below";
  EXPECT_TRUE(draw_pictures(Gallery(), OnePicture(), folder.path()).empty());
}

}  // namespace segmentation_model_test
}  // namespace lockstep::segmentation
