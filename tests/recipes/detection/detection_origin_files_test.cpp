// SPDX-License-Identifier: Apache-2.0
// Every settings file of D-FINE and DEIM, re-created by origin_files.py, is read and trains two steps; files for
// unsupported networks are rejected with file and line.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "detection/config.h"
#include "detection/task.h"
#include "lockstep/base/error.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_origin_files_test {

namespace fs = std::filesystem;
using ::lockstep::test::fault_of;
using ::lockstep::testing::alone;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A file, and the name of its dataset.
struct OriginFile {
  std::string set;
  fs::path path;
};

class DetectionOriginFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = testing::run_shell(fmt::format("python3 {}/tests/recipes/detection/origin_files.py {}",
                                                     LOCKSTEP_TEST_SOURCE_DIR, folder_.path().string()));
    ASSERT_EQ(made.code, 0) << made.text;
  }

  [[nodiscard]] std::vector<OriginFile> files(const char* list) const {
    std::vector<OriginFile> files;
    std::ifstream lines(folder_ / list);
    for (OriginFile file; lines >> file.set >> file.path;) files.push_back(file);
    return files;
  }

  /// Binds as `lockstep train -c FILE -u SETS...` does.
  static void bind(const fs::path& file, const std::vector<std::string>& sets, DetectionConfig& config) {
    ConfigTree tree = ConfigTree::from_file(file);
    for (const std::string& each : sets) tree.set(each, "--set");
    std::vector<std::string> notes;
    ConfigFields fields;
    config.describe(fields);
    fields.bind(with_aliases(from_origin(tree), aliases(), notes).filtered([](const std::string& key) {
      return !key.starts_with("--");
    }));
  }

  /// The dataset of four images; the file's own backbone, groups, losses and schedule, with a small network behind
  /// them.
  [[nodiscard]] std::vector<std::string> small(const std::string& set) const {
    std::vector<std::string> sets = {"eval_spatial_size=[96, 96]",
                                     "HybridEncoder.hidden_dim=32",
                                     "HybridEncoder.nhead=2",
                                     "HybridEncoder.dim_feedforward=32",
                                     "DFINETransformer.hidden_dim=32",
                                     "DFINETransformer.nhead=2",
                                     "DFINETransformer.dim_feedforward=32",
                                     "DFINETransformer.num_layers=2",
                                     "DFINETransformer.num_queries=20",
                                     "DFINETransformer.num_denoising=10",
                                     "train_dataloader.total_batch_size=2",
                                     "max_steps=2",
                                     "workers=0"};
    const std::string data = (folder_ / "data").string();
    for (const auto& [loader, part] : {std::pair{"train_dataloader", "train"}, {"val_dataloader", "val"}}) {
      sets.push_back(fmt::format("{}.dataset.ann_file={}/{}_{}.json", loader, data, set, part));
      sets.push_back(fmt::format("{}.dataset.img_folder={}/{}", loader, data, part));
    }
    return sets;
  }

  TrainResult train(const OriginFile& file) const {
    DetectionConfig config;
    bind(file.path, small(file.set), config);
    config.validate();
    DetectionTask task(config);
    task.settle(config);
    const test::TempDir run;
    return Trainer(alone(), task, config, {.recipe = "detection", .run_dir = run / "run"}).fit();
  }

  const test::TempDir folder_;
};

TEST_F(DetectionOriginFiles, EachOfThemIsReadAsItIs) {
  const auto all = files("trained.txt");
  EXPECT_EQ(all.size(), 41U) << "29 of D-FINE, 12 of DEIM";
  for (const OriginFile& file : all) {
    SCOPED_TRACE(file.path.string());
    DetectionConfig config;
    ASSERT_NO_THROW(bind(file.path, {}, config));
    EXPECT_NO_THROW(config.validate());
    EXPECT_TRUE(config.network_choice().as_published);
    EXPECT_GE(config.optimizer.groups.size(), 2U);
    EXPECT_EQ(config.image_size, 640);
  }
}

/// Files with the same networks and groups differ only in their numbers, so one of them is enough for ./test.
TEST_F(DetectionOriginFiles, EachNetworkWithItsGroupsTakesTwoSteps) {
  std::set<std::string> seen;
  for (const OriginFile& file : files("trained.txt")) {
    SCOPED_TRACE(file.path.string());
    DetectionConfig config;
    bind(file.path, {}, config);
    std::string key = config.published.backbone + config.criterion.classification + config.schedule.type;
    for (const ConfigMap& group : config.optimizer.groups) key += std::get<std::string>(group.at("params"));
    key += fmt::format("{} {} {}", config.published.levels, config.published.freeze_at, config.published.freeze_norm);
    if (!seen.insert(key).second) continue;
    TrainResult result;
    ASSERT_NO_THROW(result = train(file));
    EXPECT_EQ(result.steps, 2);
  }
  EXPECT_GE(seen.size(), 15U) << "five sizes of D-FINE, those of DEIM, and their second schedule";
}

/// The numbers as well: 41 training runs, which are not part of ./test.
TEST_F(DetectionOriginFiles, EachOfThemTakesTwoSteps) {
  for (const OriginFile& file : files("trained.txt")) {
    SCOPED_TRACE(file.path.string());
    TrainResult result;
    ASSERT_NO_THROW(result = train(file));
    EXPECT_EQ(result.steps, 2);
  }
}

TEST_F(DetectionOriginFiles, AGroupThatMatchesNothingIsANoteAndInOurWordsAnError) {
  const auto all = files("trained.txt");
  const auto found =
      std::ranges::find_if(all, [](const OriginFile& f) { return f.path.stem() == "dfine_hgnetv2_n_coco"; });
  ASSERT_NE(found, all.end());
  ::testing::internal::CaptureStderr();
  EXPECT_NO_THROW(train(*found));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the optimizer's group '^(?=.*backbone)(?=.*norm|bn).*$' is empty"));
  std::ofstream(folder_ / "mine.yml") << "__include__: ['" << found->path.string()
                                      << "']\noptimizer: {groups: [{params: ^backbon_, lr: 1e-4}]}\n";
  EXPECT_THAT(fault_of<UsageError>([&] {
                train({"coco", folder_ / "mine.yml"});
              }),
              HasSubstr("AdamW's group '^backbon_' matches none of"));
}

TEST_F(DetectionOriginFiles, ThoseOfRtDetrAreRefusedWithFileAndLine) {
  const auto refused = files("refused.txt");
  EXPECT_EQ(refused.size(), 10U);
  for (const OriginFile& file : refused) {
    EXPECT_THAT(fault_of<UsageError>([&] {
                  DetectionConfig config;
                  bind(file.path, {}, config);
                }),
                AllOf(HasSubstr(file.path.filename().string() + ":"), HasSubstr("DEIM.backbone is PResNet")));
  }
}

}  // namespace detection_origin_files_test
}  // namespace lockstep::detection
