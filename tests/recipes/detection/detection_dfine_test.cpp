// SPDX-License-Identifier: Apache-2.0
// The published network, and settings in the original format.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "detection/config.h"
#include "detection/dfine/cost.h"
#include "detection/dfine/fuse.h"
#include "detection/dfine/network.h"
#include "detection/dfine/weights.h"
#include "detection/task.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/checkpoint/weights.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/train/first_weights.h"
#include "lockstep/train/prepare.h"
#include "support/fault_of.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_dfine_test {

namespace fs = std::filesystem;
using ::lockstep::test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The published network against its published numbers: sizes and costs of the presets, the original files, fused
// layers.

/// A preset's settings, for COCO's classes.
DetectionConfig preset(const std::string& name) {
  DetectionConfig config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text(presets().at(name), name));
  config.num_classes = 80;
  config.data.train = "somewhere";
  config.data.test = "somewhere";  // a second stage needs evaluations
  config.validate();
  return config;
}

/// Size S with fewer queries, for images of 64 pixels.
dfine::Options small() {
  dfine::Options options = preset("dfine_s").published_options();
  options.queries = 20;
  return options;
}

NamedTensors entries_of(torch::nn::Module& net) {
  NamedTensors entries = named_parameters_of(net);
  for (const auto& buffer : named_buffers_of(net)) entries.push_back(buffer);
  return entries;
}

/// Makes the statistics and weights differ from those of a fresh network.
void shake(torch::nn::Module& net) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  for (auto& item : net.named_parameters()) item.value().add_(0.1 * (at::rand_like(item.value()) - 0.5));
  for (auto& item : net.named_buffers()) {
    if (item.key().ends_with("running_mean")) item.value().copy_(at::rand_like(item.value()) - 0.5);
    if (item.key().ends_with("running_var")) item.value().copy_(at::rand_like(item.value()) + 0.5);
  }
}

struct Published {
  double millions;  ///< parameters, in millions, from the formulas; D-FINE's README gives them without decimals
  double gflops;
};

TEST(DetectionDfine, ThePresetsHaveTheParametersAndCostsThatTheOriginPrints) {
  const std::map<std::string, Published> expected = {
      {"n", {3.754, 7}}, {"s", {10.237, 25}}, {"m", {19.248, 57}}, {"l", {30.770, 91}}, {"x", {61.696, 202}}};
  for (const auto& [size, published] : expected) {
    for (const char* kind : {"dfine_", "deim_"}) {
      const dfine::Cost cost = dfine::cost_of(preset(kind + size).published_options(), 640);
      EXPECT_NEAR(cost.flops / 1e9, published.gflops, 0.02 * published.gflops) << kind << size;
      EXPECT_NEAR(2 * cost.macs / 1e9, published.gflops, 0.02 * published.gflops) << kind << size;
      EXPECT_NEAR(static_cast<double>(cost.parameters) / 1e6, published.millions, 0.01 * published.millions)
          << kind << size;
    }
  }
}

TEST(DetectionDfine, CountsWhatConvolutionsAndLinearLayersMultiply) {
  const at::Tensor before = at::globalContext().defaultGenerator(at::Device(at::kCPU)).get_state();
  dfine::Options options = small();
  const dfine::Cost cost = dfine::cost_of(options, 640);
  EXPECT_TRUE(before.equal(at::globalContext().defaultGenerator(at::Device(at::kCPU)).get_state()));
  // Twenty more queries: only the decoder grows.
  options.queries += 20;
  const dfine::Cost more = dfine::cost_of(options, 640);
  const double hidden = 256;
  const double layer = 4 * hidden * hidden + 8 * 12 * 3 * hidden + 4 * hidden * hidden + 2 * 1024 * hidden +
                       4 * 2 * hidden + 2 * hidden * hidden + 2 * hidden * hidden + 132 * hidden;
  const double heads = 2 * (2 * hidden * hidden + 4 * hidden) + 80 * hidden + 20 * 64 + 64;
  EXPECT_EQ(more.macs - cost.macs, 20 * (3 * layer + heads));
  EXPECT_EQ(more.parameters, cost.parameters);
  EXPECT_EQ(dfine::to_text({.parameters = 10'237'000, .macs = 12.44e9, .flops = 25.06e9}, 640),
            "10.2 M parameters, 12.4 GMACs and 25.1 GFLOPs at 640 x 640 pixels");
}

TEST(DetectionDfine, FusedLayersGiveTheSamePredictions) {
  {
    dfine::Options options = small();
    dfine::Network net(options);
    shake(net);
    net.eval();
    const at::NoGradGuard guard;
    const at::Tensor images = at::rand({2, 3, 96, 64});
    const Outputs before = net.forward(images, nullptr);
    const std::size_t entries = net.named_parameters().size() + net.named_buffers().size();
    EXPECT_GT(dfine::fuse(net), 100);
    EXPECT_LT(net.named_parameters().size() + net.named_buffers().size(), entries / 2);
    const Outputs after = net.forward(images, nullptr);
    EXPECT_LT((before.at("logits") - after.at("logits")).abs().max().item<double>(), 1e-4);
    EXPECT_LT((before.at("boxes") - after.at("boxes")).abs().max().item<double>(), 1e-5);
    EXPECT_EQ(dfine::fuse(net), 0);
  }
}

TEST(DetectionDfine, AFrozenBackboneKeepsItsStemAndItsNorms) {
  dfine::Options options = preset("dfine_l").published_options();
  options.backbone = "B0";
  options.queries = 20;
  dfine::Network net(options);
  shake(net);
  const at::Tensor mean = net.named_buffers()["backbone.stages.0.blocks.0.layers.0.bn.running_mean"];
  const at::Tensor was = mean.clone();
  net.train();
  net.forward(at::rand({2, 3, 64, 64}), nullptr).at("boxes").sum().backward();
  EXPECT_TRUE(mean.equal(was));
  EXPECT_FALSE(net.named_parameters()["backbone.stem.stem1.conv.weight"].grad().defined());
  EXPECT_TRUE(net.named_parameters()["backbone.stages.0.blocks.0.layers.0.conv.weight"].grad().defined());
  EXPECT_EQ(net.named_parameters().find("backbone.stages.0.blocks.0.layers.0.bn.weight"), nullptr);
  net.eval();
  const at::NoGradGuard guard;
  const at::Tensor images = at::rand({1, 3, 64, 64});
  const at::Tensor before = net.forward(images, nullptr).at("boxes");
  dfine::fuse(net);
  EXPECT_LT((before - net.forward(images, nullptr).at("boxes")).abs().max().item<double>(), 1e-5);
}

class DetectionDfineWeights : public ::testing::Test {
 protected:
  /// A Python program's output about a file; if torch is missing, the reason for skipping the test.
  static testing::Output python(const std::string& mode, const std::string& file) {
    return testing::run_shell(fmt::format("/usr/bin/python3 {}/tests/recipes/golden/make_dfine.py {} {}",
                                          LOCKSTEP_TEST_SOURCE_DIR, mode, file));
  }
  void SetUp() override {
    if (testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0)
      GTEST_SKIP() << "python3-torch is not there";
  }
  const test::TempDir folder_;
};

TEST_F(DetectionDfineWeights, OfTheOriginsLayoutFillTheWholeNetworkWithTheAverage) {
  const std::string file = (folder_.path() / "published.pth").string();
  const auto made = python("--weights", file);
  ASSERT_EQ(made.code, 0) << made.text;
  dfine::Network net(preset("dfine_s").published_options());
  Weights weights = load_weights(file);
  EXPECT_EQ(weights.origin, file + ", ema.module");
  EXPECT_TRUE(dfine::fit_weights(weights.tensors, entries_of(net)).empty());
  const WeightsMatch match = copy_weights(entries_of(net), weights);
  EXPECT_TRUE(match.unused.empty()) << match.unused.front();
  EXPECT_TRUE(match.other_shapes.empty()) << match.other_shapes.front().name;
  for (const std::string& name : match.missing)
    EXPECT_THAT(name, ::testing::ContainsRegex("anchors|valid_mask|up|reg_scale"));
  for (const auto& [name, tensor] : entries_of(net)) {
    if (!weights.tensors.contains(name)) continue;
    ASSERT_TRUE(tensor.equal(std::get<at::Tensor>(weights.tensors.at(name)))) << name;
  }
  EXPECT_TRUE(at::isfinite(net.named_buffers()["decoder.anchors"]).all().item<bool>());
}

TEST_F(DetectionDfineWeights, OfThisNetworkHaveTheOriginsNamesAndShapes) {
  const DetectionConfig config = preset("dfine_s");
  DetectionTask task(config);
  const auto net = task.make_model();
  const StateDict model = to_state_dict(entries_of(*net));
  StateDict average = model;
  average["backbone.stem.stem1.conv.weight"] = at::full({16, 3, 3, 3}, 0.5F);
  const auto file = task.origin_file({.model = model, .average = average, .updates = 7, .epochs = 4});
  ASSERT_TRUE(file);
  EXPECT_EQ(std::get<std::int64_t>(file->find("last_epoch")->value), 3) << "the last that is done, counted from 0";
  const std::string path = (folder_.path() / "mine.pth").string();
  write_torch_file(FileSystem::system(), path, *file);
  const auto checked = python("--names", path);
  EXPECT_EQ(checked.code, 0) << checked.text;
  Weights back = load_weights(path);
  EXPECT_EQ(back.origin, path + ", ema.module");
  EXPECT_TRUE(std::get<at::Tensor>(back.tensors.at("backbone.stem.stem1.conv.weight"))
                  .equal(std::get<at::Tensor>(average.at("backbone.stem.stem1.conv.weight"))));
  EXPECT_FALSE(DetectionTask(DetectionConfig{}).origin_file({.model = model})) << "the small detector";
}

TEST(DetectionDfine, HeadsOfObjects365BecomeThoseOfCocoClassByClass) {
  dfine::Network net(small());
  StateDict weights;
  weights["decoder.denoising_class_embed.weight"] = at::zeros({367, 256});
  weights["decoder.enc_score_head.bias"] = at::arange(366).to(at::kFloat);
  weights["decoder.dec_score_head.1.weight"] = at::arange(366).to(at::kFloat).unsqueeze(1).expand({366, 256}).clone();
  const std::vector<std::string> done = dfine::fit_weights(weights, entries_of(net));
  EXPECT_EQ(done.size(), 2U);
  EXPECT_FALSE(weights.contains("decoder.denoising_class_embed.weight"));
  const auto bias = std::get<at::Tensor>(weights.at("decoder.enc_score_head.bias"));
  EXPECT_EQ(bias.numel(), 80);
  EXPECT_EQ(bias[0].item<float>(), 1);     // person
  EXPECT_EQ(bias[1].item<float>(), 47);    // bicycle
  EXPECT_EQ(bias[79].item<float>(), 227);  // toothbrush
  EXPECT_EQ(std::get<at::Tensor>(weights.at("decoder.dec_score_head.1.weight"))[2][9].item<float>(), 6);
}

TEST(DetectionDfine, HeadsOfCocoFillTheirRowsOfObjects365) {
  dfine::Options options = small();
  options.classes = 366;
  dfine::Network net(options);
  StateDict weights;
  weights["decoder.enc_score_head.bias"] = at::arange(80).to(at::kFloat) + 100;
  EXPECT_EQ(dfine::fit_weights(weights, entries_of(net)).size(), 1U);
  const auto bias = std::get<at::Tensor>(weights.at("decoder.enc_score_head.bias"));
  EXPECT_EQ(bias[1].item<float>(), 100);
  EXPECT_EQ(bias[227].item<float>(), 179);
  EXPECT_NEAR(bias[0].item<float>(), -4.59512, 1e-4);  // not one of COCO's classes: unchanged
}

TEST(DetectionDfine, HeadsOfAnotherSetAreLeftToBeReported) {
  dfine::Options options = small();
  options.classes = 3;
  dfine::Network net(options);
  StateDict weights;
  weights["decoder.enc_score_head.bias"] = at::zeros({80});
  EXPECT_TRUE(dfine::fit_weights(weights, entries_of(net)).empty());
  EXPECT_EQ(match_weights(entries_of(net), weights).other_shapes.front().name, "decoder.enc_score_head.bias");
}

TEST(DetectionDfine, ABackboneAloneGoesIntoTheBackbone) {
  dfine::Network net(small());
  StateDict weights;
  weights["stem.stem1.conv.weight"] = at::full({16, 3, 3, 3}, 0.5F);
  weights["stages.3.blocks.0.aggregation.1.bn.weight"] = at::full({1024}, 2.0F);
  EXPECT_EQ(dfine::fit_weights(weights, entries_of(net)).size(), 1U);
  EXPECT_EQ(match_weights(entries_of(net), weights).loaded,
            (std::vector<std::string>{"backbone.stages.3.blocks.0.aggregation.1.bn.weight",
                                      "backbone.stem.stem1.conv.weight"}));
}

TEST(DetectionDfine, AFileOfAWholeBackboneNeedsNoPermission) {
  const test::TempDir folder;
  DetectionConfig config = preset("dfine_s");
  config.published.queries = 20;
  DetectionTask task(config);
  const auto net = task.make_model();
  shake(*net);
  StateDict backbone;
  for (const auto& [name, tensor] : entries_of(*net)) {
    if (name.starts_with("backbone.")) backbone[name.substr(9)] = tensor.detach().clone();
  }
  const auto file = folder / "PPHGNetV2_B0_stage1.pth";
  write_torch_file(FileSystem::system(), file, to_torch_value(backbone));
  const auto fresh = task.make_model();
  start_from_weights(task, entries_of(*fresh), {.path = file});
  for (const auto& [name, tensor] : entries_of(*fresh)) {
    if (!name.starts_with("backbone.")) continue;
    EXPECT_TRUE(tensor.equal(std::get<at::Tensor>(backbone.at(name.substr(9))))) << name;
  }
  backbone.erase("stem.stem3.conv.weight");
  write_torch_file(FileSystem::system(), file, to_torch_value(backbone));
  EXPECT_THROW(start_from_weights(task, entries_of(*fresh), {.path = file}), DataError);
}

TEST(DetectionDfine, WeightsOfOtherBinsAreAnErrorThatNamesBoth) {
  dfine::Network net(small());
  StateDict weights;
  weights["decoder.reg_scale"] = at::full({1}, 8.0F);
  try {
    static_cast<void>(dfine::fit_weights(weights, entries_of(net)));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("decoder.reg_scale is 8 in the weights but 4 in the settings"));
    EXPECT_THAT(error.what(), HasSubstr("--set dfine.reg_scale=8"));
  }
}

TEST(DetectionDfine, SizesThatDoNotFitAreErrors) {
  const auto fails = [](auto change) {
    dfine::Options options = small();
    change(options);
    EXPECT_THROW(dfine::Network{options}, UsageError);
  };
  fails([](dfine::Options& o) { o.backbone = "B9"; });
  fails([](dfine::Options& o) { o.points = {3, 6}; });
  fails([](dfine::Options& o) { o.hidden = 250; });
  fails([](dfine::Options& o) { o.eval_idx = 3; });
  fails([](dfine::Options& o) { o.reg_max = 7; });
  dfine::Options options = small();
  options.queries = 22;
  dfine::Network net(options);
  EXPECT_THROW(net.forward(at::rand({1, 3, 48, 64}), nullptr), UsageError);  // not a multiple of 32
  EXPECT_THROW(net.forward(at::rand({1, 3, 32, 32}), nullptr), UsageError);  // 21 positions
}

// Unchanged settings files of D-FINE and DEIM: keys that have an effect, keys that get a note, and errors.

const fs::path kTree = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/recipes/detection/origin";

struct Read {
  DetectionConfig config;
  std::map<std::string, std::string> options;  ///< "--run-dir" and the like
  std::vector<std::string> notes;

  /// All notes except the one about alternative names.
  [[nodiscard]] std::string without_meaning() const {
    std::string all;
    for (const std::string& note : notes) {
      if (!note.starts_with("settings under other names")) all += note + "\n";
    }
    return all;
  }
};

/// Binds as `lockstep train` does.
void read_tree(const ConfigTree& tree, Read& read) {
  ConfigTree renamed = with_aliases(from_origin(tree), aliases(), read.notes);
  for (const auto& [key, value] : renamed.values()) {
    if (key.starts_with("--")) read.options[key] = value.yaml;
  }
  ConfigFields fields;
  read.config.describe(fields);
  fields.bind(renamed.filtered([](const std::string& key) { return !key.starts_with("--"); }));
}

void read_file(const char* name, Read& read, const std::vector<std::string>& typed = {}) {
  ConfigTree tree = ConfigTree::from_file(kTree / name);
  for (const std::string& assignment : typed) tree.set(assignment, "--set");
  read_tree(tree, read);
}

std::string fault_in(const std::string& yaml) {
  return fault_of<UsageError>([&] {
    Read read;
    read_tree(ConfigTree::from_text(yaml, "x.yml"), read);
  });
}

TEST(DetectionOrigin, ADeimTreeTakesEffectAsItIs) {
  Read read;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", read);
  const DetectionConfig& config = read.config;
  EXPECT_EQ(config.epochs, 132);
  EXPECT_EQ(config.total_batch_size, 4);
  EXPECT_EQ(config.image_size, 640);
  EXPECT_EQ(config.amp, "bf16");
  EXPECT_EQ(config.clip_norm, 0.2);
  EXPECT_EQ(config.ema.decay, 0.999);
  EXPECT_EQ(config.ema.warmups, 500);
  EXPECT_EQ(config.ema.start, 3);
  EXPECT_EQ(config.checkpoint.every_epochs, 2);
  EXPECT_EQ(config.stages.stop_epoch, 120);
  EXPECT_EQ(config.stages.ema_restart_decay, 0.9998);
  EXPECT_EQ(config.log_every_steps, 50);
  EXPECT_TRUE(config.sync_batchnorm);
  EXPECT_TRUE(config.drop_last);
  EXPECT_EQ(config.data.test, "data/test/annotations.json");
  EXPECT_EQ(config.optimizer.lr, 0.0004);
  EXPECT_EQ(config.optimizer.groups.size(), 2U);
  EXPECT_EQ(read.options.at("--run-dir"), "./out/deim_s");
  EXPECT_NO_THROW(config.validate());
}

TEST(DetectionOrigin, FlatCosineCountsWhereItIsNamedAndMultiStepWhereNot) {
  Read deim;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", deim);
  EXPECT_EQ(deim.config.schedule.type, "flat_cosine");
  EXPECT_EQ(deim.config.schedule.gamma, 0.5) << "not MultiStepLR's";
  EXPECT_EQ(deim.config.schedule.warmup_steps, 2000);
  EXPECT_EQ(deim.config.schedule.flat_epochs, 64);
  EXPECT_EQ(deim.config.schedule.no_aug_epochs, 12);
  Read dfine;
  read_file("dfine/dfine_hgnetv2_s_scenes.yml", dfine);
  EXPECT_EQ(dfine.config.schedule.type, "multi_step");
  EXPECT_THAT(dfine.config.schedule.milestones, ElementsAre("60"));
  EXPECT_EQ(dfine.config.schedule.gamma, 0.1);
  EXPECT_EQ(dfine.config.schedule.warmup_steps, 250);
}

TEST(DetectionOrigin, TheListOfOperationsIsTheAugmentation) {
  Read deim;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", deim);
  EXPECT_THAT(deim.config.policy, ElementsAre("4", "64", "120"));
  EXPECT_EQ(deim.config.augment.mosaic_prob, 0.5);
  EXPECT_EQ(deim.config.augment.mosaic_side, 320);
  EXPECT_EQ(deim.config.augment.mixup_prob, 0.5);
  EXPECT_EQ(deim.config.augment.photometric_prob, 0.5);
  EXPECT_EQ(deim.config.augment.iou_crop_prob, 0.8);
  EXPECT_EQ(deim.config.augment.base_size_repeat, 20);
  Read dfine;
  read_file("dfine/dfine_hgnetv2_s_scenes.yml", dfine);
  EXPECT_THAT(dfine.config.policy, ElementsAre("0", "0", "120")) << "one number";
  EXPECT_EQ(dfine.config.augment.mosaic_prob, 0);
  EXPECT_EQ(dfine.config.augment.mixup_prob, 0);
  EXPECT_EQ(dfine.config.augment.photometric_prob, 0.4);
  EXPECT_EQ(dfine.config.augment.zoom_out_prob, 0.5) << "what the operation does without p";
  EXPECT_EQ(dfine.config.augment.flip_prob, 0.5);
  Read bare;
  read_file("dfine/dfine_hgnetv2_s_scenes.yml", bare,
            {"train_dataloader.dataset.transforms.ops=[{type: Resize, size: [640, 640]}]",
             "train_dataloader.collate_fn.base_size_repeat=null"});
  EXPECT_EQ(bare.config.augment.flip_prob, 0);
  EXPECT_EQ(bare.config.augment.zoom_out_prob, 0);
}

TEST(DetectionOrigin, TheChosenLossHasItsWeight) {
  Read deim;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", deim);
  EXPECT_EQ(deim.config.criterion.classification, "mal");
  EXPECT_EQ(deim.config.criterion.class_weight, 1);
  EXPECT_EQ(deim.config.criterion.gamma, 1.5);
  EXPECT_EQ(deim.config.criterion.fgl_weight, 0.15);
  Read vfl;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", vfl, {"DEIMCriterion.losses=[vfl, boxes]"});
  EXPECT_EQ(vfl.config.criterion.classification, "vfl");
  EXPECT_EQ(vfl.config.criterion.class_weight, 3);
  EXPECT_EQ(vfl.config.criterion.fgl_weight, 0) << "without 'local'";
}

TEST(DetectionOrigin, TheSectionsOfTheNetworkAreTheNetwork) {
  Read read;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", read);
  EXPECT_EQ(read.config.network, "dfine");
  const dfine::Options model = read.config.published_options();
  EXPECT_EQ(model.backbone, "B0");
  EXPECT_EQ(model.levels, 3);
  EXPECT_EQ(model.encoder_hidden, 256);
  EXPECT_EQ(model.encoder_heads, 8);
  EXPECT_EQ(model.depth_mult, 0.34);
  EXPECT_EQ(model.layers, 3);
  EXPECT_THAT(model.points, ElementsAre(3, 6, 3));
  EXPECT_THAT(fault_in("HGNetv2:\n  return_idx: [0, 1]\n"), HasSubstr("HGNetv2.return_idx is [0, 1]"));
}

TEST(DetectionOrigin, NotesNameWhatHasNoCounterpartAndNothingElse) {
  Read read;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", read);
  EXPECT_THAT(read.without_meaning(),
              AllOf(AllOf(HasSubstr("HGNetv2.pretrained is "), HasSubstr("no effect here: use --init-from FILE")),
                    HasSubstr("val_dataloader.total_batch_size")));
  for (const char* silent : {"DEIM.backbone", "transforms.type", "in_channels", "enc_act", "eval_idx", "shuffle",
                             "mixup_epochs", "policy.ops", "base_size", "ops.Mosaic"}) {
    EXPECT_THAT(read.without_meaning(), Not(HasSubstr(silent)));
  }
  Read other;
  read_file(
      "deim_dfine/deim_hgnetv2_s_scenes.yml", other,
      {"HybridEncoder.dropout=0.1", "HybridEncoder.enc_act=relu", "train_dataloader.collate_fn.mixup_epochs=[2, 64]"});
  EXPECT_THAT(other.without_meaning(),
              AllOf(HasSubstr("HybridEncoder.dropout is 0.1, which has no effect here: it is always 0"),
                    HasSubstr("HybridEncoder.enc_act is relu, which has no effect here: it is always gelu"),
                    HasSubstr("mixup_epochs is [2, 64], which has no effect here: use augment.policy")));
}

TEST(DetectionOrigin, WhatIsWrongIsAnErrorWithFileAndLine) {
  EXPECT_THAT(fault_in("epoches: 3\nDEIM:\n  backbone: PResNet\n"),
              AllOf(HasSubstr("x.yml:3: DEIM.backbone is PResNet"), HasSubstr("here it is HGNetv2")));
  EXPECT_THAT(fault_in("train_dataloader:\n  dataset:\n    transforms:\n      ops: [{type: RandomZoomOutt}]\n"),
              AllOf(HasSubstr("x.yml:4: "), HasSubstr("RandomZoomOut'")));
  EXPECT_THAT(fault_in("HGNetv2:\n  name: B9\n"), HasSubstr("x.yml:2: dfine.backbone is 'B9'"));
  EXPECT_THAT(fault_in("DEIMCriterion:\n  losses: [focal]\n"), HasSubstr("x.yml:2: DEIMCriterion.losses"));
  EXPECT_THAT(fault_in("train_dataloader: {dataset: {transforms: {policy: {epoch: [1, 2]}}}}"),
              HasSubstr("x.yml:1: train_dataloader.dataset.transforms.policy.epoch has 2 numbers"));
  EXPECT_THAT(fault_in("\nepoches: many\n"), HasSubstr("x.yml:2: epochs is 'many'"));
  EXPECT_THAT(fault_in("eval_spatial_size: [640, 480]\n"), HasSubstr("x.yml:1: eval_spatial_size"));
  EXPECT_THAT(fault_in("DEIMCriterion:\n  matcher: {iou_order_alpha: 4.0, change_matcher: True}\n"),
              HasSubstr("x.yml:2: DEIMCriterion.matcher.change_matcher is True, which has no equivalent here"));
}

TEST(DetectionOrigin, TheRecipesOwnNamesWinAndWhatIsTypedWinsOverBoth) {
  Read own;
  read_tree(ConfigTree::from_text("augment.policy: [1, 2, 3]\ntrain_dataloader.dataset.transforms.policy.epoch: 9\n",
                                  "x.yml"),
            own);
  EXPECT_THAT(own.config.policy, ElementsAre("1", "2", "3"));
  ConfigTree tree = ConfigTree::from_text("augment.policy: [1, 2, 3]\n", "x.yml");
  tree.set("train_dataloader.dataset.transforms.policy.epoch=9", "--set");
  Read typed;
  read_tree(tree, typed);
  EXPECT_THAT(typed.config.policy, ElementsAre("0", "0", "9"));
}

TEST(DetectionOrigin, OptionsOfItsProgramAreOptionsHere) {
  Read read;
  read_tree(
      ConfigTree::from_text("resume: a\ntuning: b.pth\ndevice: cpu\ntest_only: True\nsummary_dir: curves\n", "x.yml"),
      read);
  EXPECT_EQ(read.options.at("--resume"), "a");
  EXPECT_EQ(read.options.at("--init-from"), "b.pth");
  EXPECT_EQ(read.options.at("--device"), "cpu");
  EXPECT_EQ(read.options.at("--test-only"), "True");
  EXPECT_EQ(read.config.tensorboard, "curves");
}

}  // namespace detection_dfine_test
}  // namespace lockstep::detection
