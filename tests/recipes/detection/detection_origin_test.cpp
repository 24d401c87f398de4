// SPDX-License-Identifier: Apache-2.0
// Settings files in the form of D-FINE and DEIM, unchanged: what takes effect, what is named, and what is an error.
#include "detection/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "support/fault_of.h"

namespace lockstep::detection {
namespace detection_origin_test {

namespace fs = std::filesystem;
using ::lockstep::test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const fs::path kTree = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/recipes/detection/origin";

struct Read {
  DetectionConfig config;
  std::map<std::string, std::string> options;  ///< "--run-dir" and the like
  std::vector<std::string> notes;

  [[nodiscard]] std::string without_meaning() const {
    for (const std::string& note : notes) {
      if (note.starts_with("settings without")) return note;
    }
    return "";
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
  EXPECT_TRUE(read.config.is_published());
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

TEST(DetectionOrigin, OneNoteNamesWhatHasNoCounterpartAndNothingElse) {
  Read read;
  read_file("deim_dfine/deim_hgnetv2_s_scenes.yml", read);
  EXPECT_THAT(read.without_meaning(), AllOf(HasSubstr("HGNetv2.pretrained (use --init-from FILE)"),
                                            HasSubstr("val_dataloader.total_batch_size")));
  for (const char* silent : {"DEIM.backbone", "transforms.type", "in_channels", "enc_act", "eval_idx", "shuffle",
                             "mixup_epochs", "policy.ops", "base_size", "ops.Mosaic"}) {
    EXPECT_THAT(read.without_meaning(), Not(HasSubstr(silent)));
  }
  Read other;
  read_file(
      "deim_dfine/deim_hgnetv2_s_scenes.yml", other,
      {"HybridEncoder.dropout=0.1", "HybridEncoder.enc_act=relu", "train_dataloader.collate_fn.mixup_epochs=[2, 64]"});
  EXPECT_THAT(other.without_meaning(), AllOf(HasSubstr("HybridEncoder.dropout (always 0 here)"),
                                             HasSubstr("HybridEncoder.enc_act (always gelu here)"),
                                             HasSubstr("mixup_epochs (use augment.policy)")));
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

}  // namespace detection_origin_test
}  // namespace lockstep::detection
