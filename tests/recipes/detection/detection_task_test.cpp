// SPDX-License-Identifier: Apache-2.0
// The detection recipe as a whole: its settings under two names, problems that users of the original implementation
// had, and results that do not depend on the number of processes.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>

#include "detection/config.h"
#include "detection/tally.h"
#include "detection/task.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/data/loader.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_task_test {

namespace fs = std::filesystem;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void bind_to(DetectionConfig& config, const ConfigTree& tree, std::vector<std::string>* notes = nullptr) {
  ConfigFields fields;
  config.describe(fields);
  std::vector<std::string> unheard;
  fields.bind(with_aliases(from_origin(tree), aliases(), notes == nullptr ? unheard : *notes));
}

TEST(DetectionPresets, AllBindAndAreValid) {
  for (const auto& [name, yaml] : presets()) {
    DetectionConfig config;
    config.data.train = config.data.test = "somewhere";
    bind_to(config, ConfigTree::from_text(yaml, name));
    EXPECT_NO_THROW(config.validate()) << name;
  }
  EXPECT_TRUE(presets().count("smoke"));
}

TEST(DetectionPresets, MayTakeAPartOfTheTrainingDataForTheirEvaluations) {
  for (const auto& [name, yaml] : presets()) {
    DetectionConfig config;
    bind_to(config, ConfigTree::from_text(yaml, name));
    config.data.train = "mugs";
    config.data.test = "";
    EXPECT_THROW(config.validate(), UsageError) << name << " has two stages";
    config.sets.val_fraction = 0.2;
    EXPECT_NO_THROW(config.validate()) << name;
    config.schedule.type = "plateau";
    EXPECT_NO_THROW(config.validate()) << name;
  }
}

constexpr const char* kOrigins = R"(
epoches: 58
lrsheduler: flatcosine
lr_gamma: 0.5
warmup_iter: 2000
flat_epoch: 29
no_aug_epoch: 8
use_amp: True
use_ema: True
ema: {type: ModelEMA, decay: 0.9999, warmups: 1000}
clip_max_norm: 0.1
sync_bn: True
print_freq: 100
num_classes: 80
eval_spatial_size: [640, 640]
optimizer:
  type: AdamW
  params:
    - params: '^(?=.*backbone)(?!.*norm|bn).*$'
      lr: 0.000025
  lr: 0.0005
  weight_decay: 0.000125
train_dataloader:
  total_batch_size: 32
  num_workers: 4
  dataset:
    ann_file: coco/train.json
    img_folder: coco/train2017
    transforms: {policy: {epoch: [4, 29, 50]}, mosaic_prob: 0.5}
  collate_fn: {type: BatchImageCollateFunction, mixup_prob: 0.5, stop_epoch: 50, ema_restart_decay: 0.9999, base_size_repeat: 3}
val_dataloader:
  dataset: {ann_file: coco/val.json, img_folder: coco/val2017}
  total_batch_size: 64
task: detection
DFINETransformer: {num_layers: 4, num_queries: 300}
)";

TEST(DetectionAliases, TheOriginsSettingsMeanTheSameHere) {
  DetectionConfig config;
  std::vector<std::string> notes;
  bind_to(config, ConfigTree::from_text(kOrigins, "deim.yml"), &notes);
  EXPECT_EQ(config.epochs, 58);
  EXPECT_EQ(config.schedule.type, "flat_cosine");
  EXPECT_EQ(config.schedule.warmup_steps, 2000);
  EXPECT_EQ(config.schedule.flat_epochs, 29);
  EXPECT_EQ(config.schedule.no_aug_epochs, 8);
  EXPECT_EQ(config.amp, "bf16");
  EXPECT_EQ(config.ema.decay, 0.9999);
  EXPECT_EQ(config.clip_norm, 0.1);
  EXPECT_TRUE(config.sync_batchnorm);
  EXPECT_EQ(config.log_every_steps, 100);
  EXPECT_EQ(config.image_size, 640);
  EXPECT_EQ(config.optimizer.type, "adamw");
  ASSERT_EQ(config.optimizer.groups.size(), 1U);
  EXPECT_EQ(std::get<std::string>(config.optimizer.groups[0].at("lr")), "0.000025");
  EXPECT_EQ(config.total_batch_size, 32);
  EXPECT_EQ(config.workers, 4);
  EXPECT_EQ(config.data.train, "coco/train.json");
  EXPECT_EQ(config.sets.test_images, "coco/val2017");
  EXPECT_THAT(config.policy, ElementsAre("4", "29", "50"));
  EXPECT_EQ(config.stages.stop_epoch, 50);
  EXPECT_EQ(config.augment.base_size_repeat, 3);
  EXPECT_EQ(config.published.layers, 4);
  EXPECT_NO_THROW(config.validate());
  EXPECT_THAT(notes, Contains(HasSubstr("epoches is epochs here")));
  EXPECT_THAT(notes, Contains(HasSubstr("val_dataloader.total_batch_size is 64, which has no effect here: ")));
}

TEST(DetectionAliases, SetWinsOverAFileWhicheverNameItUses) {
  ConfigTree tree = ConfigTree::from_text("epochs: 10\nepoches: 20\nclip_max_norm: 0.3", "a.yml");
  DetectionConfig ours;
  bind_to(ours, tree);
  EXPECT_EQ(ours.epochs, 10) << "in one place the name of this program counts";
  tree.set("epoches=30", "--set");
  DetectionConfig set;
  bind_to(set, tree);
  EXPECT_EQ(set.epochs, 30);
}

TEST(DetectionAliases, AnAverageThatIsSwitchedOffStaysOffBesideItsDecay) {
  DetectionConfig config;
  bind_to(config, ConfigTree::from_text("use_ema: False\nema: {type: ModelEMA, decay: 0.9999}", "a.yml"));
  EXPECT_EQ(config.ema.decay, 0);
}

TEST(DetectionAliases, AnUnknownKeyIsStillAnErrorThatNamesFileAndLine) {
  DetectionConfig config;
  try {
    bind_to(config, ConfigTree::from_text("epochs: 1\nepoch: 2", "a.yml"));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("a.yml:2"), HasSubstr("epochs")));
  }
}

/// Everything that could make two runs differ, small enough for a test.
DetectionConfig small_config() {
  DetectionConfig config;
  config.replicas = 4;
  config.num_classes = 8;
  config.batch_size = 2;
  config.epochs = 3;
  config.image_size = 64;
  config.data.train = "scenes:21:1";  // the last batches are not full
  config.data.test = "scenes:10:2";
  config.stages = {.stop_epoch = 2, .ema_restart_decay = 0.9, .ema_decay_step = 0.1};
  config.policy = {"0", "1", "2"};
  config.augment.base_size_repeat = 1;
  config.ema = {.decay = 0.95, .warmups = 4};
  config.schedule.warmup_steps = 1;
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep_last = 100;
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.encoder_feedforward = config.model.decoder_feedforward = 32;
  config.model.decoder_layers = 2;
  config.model.queries = 40;
  config.model.denoising = 20;
  config.stages_of_backbone = {{{"middle", "8"}, {"out", "16"}, {"layers", "2"}},
                               {{"middle", "8"}, {"out", "24"}, {"layers", "2"}},
                               {{"middle", "8"}, {"out", "32"}, {"layers", "2"}}};
  return config;
}

TrainResult train(const Job& job, const fs::path& run, DetectionConfig config, const std::string& resume = "none") {
  DetectionTask task(config);
  return Trainer(job, task, config, {.recipe = "detection", .run_dir = run, .resume = resume}).fit();
}

const fs::path& unbroken() {
  static const TempDir kFolder;
  static const fs::path kRun = [] {
    train(alone(), kFolder / "run", small_config());
    return fs::path(kFolder / "run");
  }();
  return kRun;
}

std::string digest(const fs::path& run) { return checkpoint_digest(load_checkpoint(run.string())); }

TEST(DetectionTask, ASetThatNumbersTheModelsClassesOtherwiseIsRefused) {
  DetectionConfig config = small_config();
  config.class_names = {"triangle", "circle", "cross", "star", "ring", "bar", "crescent", "hourglass"};
  DetectionTask swapped(config);
  try {
    (void)swapped.make_dataset("scenes:2:1");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("circle is class 1 in the model and 0 in the data"));
  }
  config.class_names = {"a", "b", "c", "d", "e", "f", "g", "h"};
  DetectionTask renamed(config);
  EXPECT_NO_THROW((void)renamed.make_dataset("scenes:2:1")) << "a person's own words for them";
}

class DetectionWorlds : public ::testing::TestWithParam<int> {};

TEST_P(DetectionWorlds, FourReplicasGiveOneDigestThroughBothStages) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, small_config()); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest(shared), digest(unbroken()));
}
INSTANTIATE_TEST_SUITE_P(TwoAndFour, DetectionWorlds, ::testing::Values(2, 4));

/// The original implementation could not resume in its second stage: there it saved only the best, with the wrong
/// epoch.
TEST(DetectionRun, IsResumedInBothStagesToTheSameDigest) {
  const TempDir folder;
  for (const int step : {2, 6, 8}) {
    const fs::path from = unbroken() / fmt::format("checkpoints/step-{:08}", step);
    const fs::path run = folder / fmt::format("from-{}", step);
    train(alone(), run, small_config(), from.string());
    EXPECT_EQ(digest(run), digest(unbroken())) << "from step " << step;
  }
}

/// The original implementation skipped denoising if a whole batch had no objects: that rank had fewer losses, and the
/// others waited forever.
TEST(DetectionRun, ARankWhoseBatchesHoldNothingTakesTheSameSteps) {
  run_ranks(current_test(),
            [](Job& job) {
              const DetectionConfig config = small_config();
              DetectionTask task(config);
              torch::manual_seed(1);
              DistributedDataParallel net{std::dynamic_pointer_cast<Detector>(task.make_model()), job};
              ReplicaTeam team(job.group(), {});
              team.run([&](Replica& replica) {
                Batch batch;
                batch.data = at::full({2, 3, 64, 64}, 0.5);
                Targets targets(2);
                const std::int64_t objects = replica.index() == 0 ? 3 : 0;
                for (Detections& target : targets) {
                  target.boxes = at::full({objects, 4}, 0.3F);
                  target.labels = at::zeros({objects}, at::kLong);
                }
                batch.extra = targets;
                const Outputs outputs = net.forward(batch.data, &targets);
                at::Tensor loss = at::zeros({});
                for (const LossTerm& term : task.loss_terms(outputs, batch)) loss = loss + term.value;
                loss.backward();
                for (const auto& [name, parameter] : named_parameters_of(net)) {
                  if (!parameter.grad().defined()) throw InternalError(name + " has no gradient");
                }
              });
            },
            {.world = 2});
}

/// The original implementation replaced NaNs with 0 and continued.
TEST(DetectionRun, ALossThatIsNotFiniteEndsItAndKeepsTheBatchWithItsBoxes) {
  const TempDir folder;
  DetectionConfig config = small_config();
  config.optimizer.lr = 1e30;
  config.clip_norm = 0;
  try {
    train(alone(), folder / "run", config);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("finite"));
    EXPECT_THAT(error.hint(), HasSubstr("bad_batches"));
  }
  for (const auto& file : fs::directory_iterator(folder / "run/bad_batches")) {
    const StateDict batch = read_safetensors(FileSystem::system(), file.path());
    EXPECT_TRUE(batch.count("boxes.0") && batch.count("labels.1") && batch.count("data"));
  }
}

TEST(DetectionTally, BoxesForPeopleEndAtThePicturesEdges) {
  const ImageSize size{100, 50};
  for (const auto& [box, cut] : {std::pair<CocoBox, CocoBox>{{-5, 10, 20, 20}, {0, 10, 15, 20}},
                                 {{90, 40, 20, 20}, {90, 40, 10, 10}},
                                 {{-5, -5, 200, 200}, {0, 0, 100, 50}},
                                 {{10, 10, 20, 20}, {10, 10, 20, 20}},
                                 {{120, 60, 9, 9}, {100, 50, 0, 0}},
                                 {{-20, -20, 9, 9}, {0, 0, 0, 0}}}) {
    const CocoBox got = cut_at_edges(box, size);
    EXPECT_EQ((std::array{got.x, got.y, got.width, got.height}), (std::array{cut.x, cut.y, cut.width, cut.height}));
  }
}

/// One image of 1000 x 1000 pixels with 120 objects that do not overlap, 40 of each of 3 classes.
Targets crowded_image() {
  const at::Tensor number = at::arange(120, at::kLong);
  const at::Tensor x = (number.remainder(12).to(at::kFloat) + 0.5) / 12;
  const at::Tensor y = (number.div(12, "floor").to(at::kFloat) + 0.5) / 10;
  const at::Tensor side = at::full({120}, 0.05F);
  const Detections image{.boxes = at::stack({x, y, side, side}, 1),
                         .labels = number.remainder(3),
                         .areas = at::full({120}, 2500.0F),
                         .crowd = at::zeros({120}, at::kBool),
                         .size = {1000, 1000},
                         .id = 0};
  return {image};
}

TEST(DetectionTally, AnImageMayHaveMoreDetectionsThanCocoAllowsToAClass) {
  const Targets targets = crowded_image();
  const at::Tensor is_label = targets[0].labels.unsqueeze(1).eq(at::arange(3, at::kLong));
  const Outputs outputs = {{"logits", (is_label.to(at::kFloat) * 14 - 9).view({1, 1, 120, 3})},
                           {"boxes", targets[0].boxes.view({1, 1, 120, 4})}};
  EXPECT_EQ(found_objects(outputs, targets).at(0).size(), 120U);
  Batch batch;
  batch.indices = {0};
  batch.extra = targets;
  DetectionTally tally({"a", "b", "c"}, nullptr);
  tally.add(outputs, batch);
  const std::vector<Metric> metrics = tally.metrics({tally.bytes()});
  EXPECT_EQ(metrics.at(0).name, "ap");
  EXPECT_NEAR(metrics.at(0).value, 1, 1e-9) << "every object is found";
}

TEST(DetectionTally, TheNumbersAreThoseOfOneRankHoweverTheImagesAreDivided) {
  const DetectionConfig config = small_config();
  DetectionTask task(config);
  const auto set = task.make_dataset(config.data.test);
  DataLoader loader(set, {.batch_size = 1, .collate = task.collate()});
  torch::manual_seed(3);
  const auto net = task.make_model();
  net->eval();
  const c10::InferenceMode no_gradients;
  const auto whole = task.make_tally();
  const auto first = task.make_tally();
  const auto second = task.make_tally();
  for (Batch& batch : loader.epoch(0)) {
    const Outputs outputs = task.run(*net, batch);
    whole->add(outputs, batch);
    (batch.step % 3 == 0 ? first : second)->add(outputs, batch);
  }
  const auto expected = whole->metrics({whole->bytes()});
  const auto other = task.make_tally();
  const auto found = other->metrics({second->bytes(), first->bytes()});
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].value, expected[i].value) << found[i].name;
  EXPECT_EQ(other->report(), whole->report());
  // Scenes of 64 pixels have no object that COCO calls large, so there is no metric `ap_large`, rather than one of -1.
  for (const Metric& metric : found) {
    EXPECT_NE(metric.name, "ap_large");
    EXPECT_NE(metric.value, -1) << metric.name;
  }
  EXPECT_THAT(other->report(), HasSubstr("area= large | maxDets=100 ] = -1.000"));
}

}  // namespace detection_task_test
}  // namespace lockstep::detection
