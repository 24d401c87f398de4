// SPDX-License-Identifier: Apache-2.0
// The networks, their losses and gradients against a re-creation in PyTorch (golden/make_segmentation.py): in float64,
// and in float32 as in training. Also weights in torchvision's layout.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/weights.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/prepare.h"
#include "segmentation/model/losses.h"
#include "segmentation/model/model.h"
#include "support/fractions.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_golden_test {

constexpr std::int64_t kClasses = 21;
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kSize = 65;
constexpr std::int64_t kSamples = 1000;
using test::fractions;

at::Tensor weight_of(const std::string& name, at::IntArrayRef shape) {
  at::Tensor value = fractions(name, shape);
  if (shape.size() == 4) {
    const std::int64_t fan_in = value.numel() / shape[0];
    return value.sub_(0.5).mul_(2 * std::sqrt(6 / static_cast<double>(fan_in)));
  }
  if (name.ends_with("gamma")) return value.fill_(0.9);
  return name.ends_with("weight") ? value.mul_(0.5).add_(0.75) : value.sub_(0.5).mul_(0.4);
}

at::Tensor images() {
  return ((fractions("images", kBatch * 3 * kSize * kSize) - 0.5) * 4).view({kBatch, 3, kSize, kSize});
}

at::Tensor target() {
  const std::int64_t count = kBatch * kSize * kSize;
  at::Tensor labels = (fractions("labels", count) * 70).floor();
  labels.masked_fill_(labels >= kClasses, 255);
  at::Tensor cells = (fractions("pseudo", kBatch * 81) * 40).floor();
  cells.masked_fill_(cells > 30, 255);
  cells.masked_fill_((cells >= kClasses).logical_and(cells < 255), 0);
  cells = cells.view({kBatch, 9, 9}).repeat_interleave(8, 1).repeat_interleave(8, 2);
  const auto plane = [&](const at::Tensor& values) { return values.reshape({kBatch, kSize, kSize}); };
  const at::Tensor scribble = (fractions("scribble", count) * 256).floor();
  const at::Tensor classes = (fractions("class", count) * 256).floor();
  const at::Tensor pseudo = cells.narrow(1, 0, kSize).narrow(2, 0, kSize);
  return at::stack({plane(labels), plane(pseudo), plane(scribble), plane(classes)}, 1).to(at::kByte);
}

const Planes kAllPlanes{.pseudo_labels = true, .scribble_distances = true, .class_distances = true};

nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/segmentation.json");
  return nlohmann::json::parse(file).at(name);
}

std::map<std::string, at::Tensor> golden_tensors() {
  std::map<std::string, at::Tensor> tensors;
  const std::string path = std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/segmentation.safetensors";
  for (const auto& [name, value] : read_safetensors(FileSystem::system(), path)) {
    tensors[name] = std::get<at::Tensor>(value).to(at::kDouble);
  }
  return tensors;
}

/// The network of one case, such as "aspp_lorm_50_8", with the script's weights.
class Golden {
 public:
  Golden(const std::string& name, at::ScalarType type)
      : name_(name), facts_(golden(name)), net_(options_of(name)), type_(type) {
    net_.to(type);
    const at::NoGradGuard guard;
    for (auto& item : net_.named_parameters()) {
      item.value().copy_(weight_of(item.key(), item.value().sizes()));
    }
    if (type == at::kFloat) use_channels_last(net_);
  }

  /// `losses_in`: the type of the logits given to the losses; float32 uses the fused kernel.
  void forward(at::ScalarType losses_in) {
    const at::Tensor pictures = images().to(type_);
    const at::Tensor target_maps = target();
    outputs_ = net_.forward(type_ == at::kFloat ? to_channels_last(pictures) : pictures,
                            target_maps.select(1, kAllPlanes.pseudo()));
    outputs_["logits"] = outputs_.at("logits").to(losses_in);
    terms_ = losses(outputs_, target_maps, kAllPlanes, {.label_smoothing = 0.1});
  }

  void expect_outputs(double tolerance) {
    EXPECT_EQ(parameter_count(net_), facts_.at("parameters").get<std::int64_t>()) << name_;
    const at::Tensor expected = tensors_.at(name_ + ".logits");
    const at::Tensor logits = outputs_.at("logits").to(at::kDouble);
    ASSERT_EQ(logits.sizes(), expected.sizes()) << name_;
    EXPECT_LT((logits - expected).norm().item<double>(), tolerance * expected.norm().item<double>()) << name_;
    ASSERT_EQ(terms_.size(), facts_.at("terms").size()) << name_;
    for (const LossTerm& term : terms_) {
      const auto value = facts_.at("terms").at(term.name).get<double>();
      EXPECT_NEAR(term.value.item<double>(), value, tolerance * std::abs(value)) << name_ << " " << term.name;
    }
  }

  /// Compares norms and sampled values; the difference of the samples is relative to their own norm.
  void expect_gradients(double tolerance) {
    at::Tensor sum;
    for (const LossTerm& term : terms_) sum = sum.defined() ? sum + term.value : term.value;
    sum.backward();
    const auto& norms = facts_.at("norms");
    ASSERT_EQ(net_.named_parameters().size(), norms.size());
    for (const auto& item : net_.named_parameters()) {
      const at::Tensor grad = item.value().grad().to(at::kDouble).contiguous().flatten();
      const auto norm = norms.at(item.key()).get<double>();
      EXPECT_NEAR(grad.norm().item<double>(), norm, tolerance * norm) << item.key();
      const std::int64_t count = std::min(kSamples, grad.numel());
      const at::Tensor taken = (at::arange(count, at::kLong) * grad.numel()).div(count, "floor");
      const at::Tensor expected = tensors_.at(name_ + "." + item.key());
      ASSERT_EQ(expected.numel(), count) << item.key();
      EXPECT_LT((grad.index_select(0, taken) - expected).norm().item<double>(),
                tolerance * expected.norm().item<double>())
          << item.key();
    }
  }

 private:
  static ModelOptions options_of(const std::string& name) {
    const std::size_t second = name.rfind('_');
    const std::size_t first = name.rfind('_', second - 1);
    ModelOptions options{.type = model_type_from_name(name.substr(0, first)), .classes = kClasses, .dropout = 0};
    options.backbone.layers = std::stoll(name.substr(first + 1, second - first - 1));
    options.backbone.output_stride = std::stoll(name.substr(second + 1));
    return options;
  }

  std::string name_;
  nlohmann::json facts_;
  std::map<std::string, at::Tensor> tensors_ = golden_tensors();
  Segmenter net_;
  at::ScalarType type_;
  Outputs outputs_;
  std::vector<LossTerm> terms_;
};

/// The file's values are float32: they differ from float64 by at most 6e-8.
TEST(SegmentationGolden, InFloat64TheNetworkOfTheOriginIsThatOfItsFormulasWithAllGradients) {
  Golden network("aspp_lorm_50_8", at::kDouble);
  network.forward(at::kDouble);
  network.expect_outputs(1e-6);
  network.expect_gradients(1e-6);
}

/// The kernel that does not store upsampled logits, on a network without rounding.
TEST(SegmentationGolden, WithTheFusedLossesAllGradientsAreThoseOfTheFormulasToOneInTenThousand) {
  Golden network("aspp_lorm_50_8", at::kDouble);
  network.forward(at::kFloat);
  network.expect_outputs(1e-5);
  network.expect_gradients(1e-4);
}

/// With random weights, the network amplifies rounding a thousandfold, and a single flipped ReLU changes a layer's
/// gradient by 1e-3. PyTorch's own float32 differs from its float64 by 1e-4 in the logits and by up to 0.025 in a
/// gradient; hence 5e-4 and 0.05 here.
TEST(SegmentationGolden, AsItTrainsInFloat32ItIsTheSameButForRounding) {
  Golden network("aspp_lorm_50_8", at::kFloat);
  network.forward(at::kFloat);
  network.expect_outputs(5e-4);
  network.expect_gradients(5e-2);
}

TEST(SegmentationGolden, OtherStridesDepthsAndHeadsAreThoseOfTheirFormulas) {
  for (const char* name : {"aspp_lorm_18_16", "deeplabv3p_lorm_18_8", "deeplabv3p_50_16"}) {
    for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-6}, std::pair{at::kFloat, 5e-4}}) {
      Golden network(name, type);
      network.forward(type);
      network.expect_outputs(tolerance);
    }
  }
}

TEST(SegmentationGolden, WeightsInTorchvisionsLayoutFitTheWholeBackboneAndLeaveTheHead) {
  if (testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0) GTEST_SKIP() << "python3-torch is not there";
  const lockstep::test::TempDir folder;
  const std::string file = (folder.path() / "resnet18.pth").string();
  const auto made = testing::run_shell(fmt::format(
      "/usr/bin/python3 {}/tests/recipes/golden/make_segmentation_weights.py {}", LOCKSTEP_TEST_SOURCE_DIR, file));
  ASSERT_EQ(made.code, 0) << made.text;
  ModelOptions options{.classes = 3};
  options.backbone.layers = 18;
  Segmenter net(options);
  NamedTensors state = named_parameters_of(net);
  for (const auto& buffer : named_buffers_of(net)) state.push_back(buffer);
  const Weights weights = load_weights(file);
  const WeightsMatch match = copy_weights(state, weights);
  EXPECT_EQ(match.loaded.size(), 120U);
  EXPECT_EQ(match.unused, (std::vector<std::string>{"fc.bias", "fc.weight"}));
  EXPECT_TRUE(match.other_shapes.empty());
  for (const std::string& name : match.missing) {
    EXPECT_TRUE(name.starts_with("aspp.") || name.starts_with("lorm.")) << name;
  }
  for (const std::string& name : match.loaded) {
    const auto own = std::find_if(state.begin(), state.end(), [&](const auto& item) { return item.first == name; });
    EXPECT_TRUE(own->second.equal(std::get<at::Tensor>(weights.tensors.at(name)))) << name;
  }
}

}  // namespace segmentation_golden_test
}  // namespace lockstep::segmentation
