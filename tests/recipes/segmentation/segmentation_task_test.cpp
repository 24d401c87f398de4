// SPDX-License-Identifier: Apache-2.0
// Segmentation as a whole: its settings under two names, gradients that stay synchronised after any load, and results
// that do not depend on the number of processes.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/weights.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/trainer.h"
#include "segmentation/config.h"
#include "segmentation/tally.h"
#include "segmentation/task.h"
#include "support/alone.h"
#include "support/comma_locale.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_task_test {

namespace fs = std::filesystem;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

void bind_to(SegmentationConfig& config, const ConfigTree& tree, std::vector<std::string>* notes = nullptr) {
  ConfigFields fields;
  config.describe(fields);
  std::vector<std::string> unheard;
  fields.bind(with_aliases(tree, aliases(), notes == nullptr ? unheard : *notes));
}

std::string fault_of(const std::function<void(SegmentationConfig&)>& change) {
  SegmentationConfig config;
  config.data.train = "somewhere";
  change(config);
  try {
    config.validate();
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

TEST(SegmentationPresets, AllBindAndAreValid) {
  for (const auto& [name, yaml] : presets()) {
    SegmentationConfig config;
    config.data.train = config.data.test = "somewhere";
    bind_to(config, ConfigTree::from_text(yaml, name));
    EXPECT_NO_THROW(config.validate()) << name;
  }
  EXPECT_TRUE(presets().count("smoke"));
}

TEST(SegmentationAliases, TheOriginsArgumentsMeanTheSameHere) {
  ConfigTree tree;
  for (const char* typed :
       {"distributed=true",     "local_rank=0",  "dist_url=env://", "layers=101",       "model_type=res50_ASPP_lorm",
        "numclasses=21",        "batchsize=4",   "workers=6",       "lr=0.002",         "epochs=7",
        "momentum=0.8",         "wdecay=0.0001", "warmup_epoch=3",  "l_segs=0.9",       "l_pesudo=0.8",
        "l_lorm=0.7",           "l_ds=0.6",      "l_dc=0.5",        "label_smooth=0.1", "dataset=ScribblePseudoDsDc",
        "dataset_path=VOC2012", "train_path=a",  "pesudo_path=b",   "distancemap_s=c",  "distancemap_c=d"}) {
    tree.set(typed, "--set");
  }
  SegmentationConfig config;
  std::vector<std::string> notes;
  bind_to(config, tree, &notes);
  EXPECT_EQ(config.model.backbone.layers, 101);
  EXPECT_EQ(config.model_options().type, ModelType::kAsppLorm);
  EXPECT_EQ(config.num_classes, 21);
  EXPECT_EQ(config.batch_size, 4);
  EXPECT_EQ(config.workers, 6);
  EXPECT_EQ(config.optimizer.lr, 0.002);
  EXPECT_EQ(config.epochs, 7);
  EXPECT_EQ(config.optimizer.momentum, "0.8");
  EXPECT_EQ(config.optimizer.weight_decay, 0.0001);
  EXPECT_EQ(config.schedule.warmup_epochs, 3);
  EXPECT_EQ(config.loss.segmentation, 0.9);
  EXPECT_EQ(config.loss.pseudo, 0.8);
  EXPECT_EQ(config.loss.lorm, 0.7);
  EXPECT_EQ(config.loss.distance_scribble, 0.6);
  EXPECT_EQ(config.loss.distance_class, 0.5);
  EXPECT_EQ(config.loss.label_smoothing, 0.1);
  EXPECT_EQ(config.data.train, "VOC2012");
  EXPECT_EQ(config.data.test, "VOC2012");
  EXPECT_EQ(config.sets.scribbles, "a");
  EXPECT_EQ(config.sets.pseudo_labels, "b");
  EXPECT_EQ(config.sets.distance_scribble, "c");
  EXPECT_EQ(config.sets.distance_class, "d");
  EXPECT_EQ(config.optimizer.lr_scaling, "replicas") << "the rate grows with the number of replicas";
  EXPECT_NO_THROW(config.validate());
  EXPECT_THAT(notes, Contains(AllOf(HasSubstr("l_pesudo is loss.pseudo here"), Not(HasSubstr("local_rank")))));
  EXPECT_THAT(notes, Contains("settings without an effect here: dist_url, distributed, local_rank"));
}

TEST(SegmentationAliases, WhereARunIsKeptAndHowOftenItIsLookedAtMeanTheSameHere) {
  ConfigTree tree;
  for (const char* typed : {"chk_interval=4", "val_epoch=7", "logdir=./log", "model_path=a.pth", "shrink_factor=2"}) {
    tree.set(typed, "--set");
  }
  std::vector<std::string> notes;
  const ConfigTree renamed = with_aliases(tree, aliases(), notes);
  EXPECT_EQ(renamed.values().at("checkpoint.every_epochs").yaml, "4");
  EXPECT_EQ(renamed.values().at("eval_from_epoch").yaml, "7");
  EXPECT_EQ(renamed.values().at("--logdir").yaml, "./log");
  EXPECT_EQ(renamed.values().at("--init-from").yaml, "a.pth");
  EXPECT_THAT(notes.front(), HasSubstr("without an effect here: shrink_factor"));
}

TEST(SegmentationConfig, NamesTheKeyThatCannotBe) {
  EXPECT_THAT(fault_of([](auto& c) { c.model.backbone.layers = 51; }), HasSubstr("model.layers is 51"));
  EXPECT_THAT(fault_of([](auto& c) { c.model.backbone.output_stride = 4; }), HasSubstr("model.output_stride is 4"));
  EXPECT_THAT(fault_of([](auto& c) { c.num_classes = 256; }), HasSubstr("num_classes is 256"));
  EXPECT_THAT(fault_of([](auto& c) {
                c.num_classes = 21;
                c.class_names = {"a"};
              }),
              HasSubstr("1 names for 21 classes"));
  EXPECT_THAT(fault_of([](auto& c) { c.loss.pseudo = -1; }), HasSubstr("loss.pseudo is -1"));
  EXPECT_THAT(fault_of([](auto& c) { c.augment.scale_max = 0.1; }), HasSubstr("augment.scale_max 0.1 is below"));
  EXPECT_THAT(fault_of([](auto& c) { c.eval_scales = {"inf"}; }), HasSubstr("eval.scales has inf"));
  EXPECT_THAT(fault_of([](auto& c) { c.eval_scales = {"0.01"}; }), HasSubstr("eval.scales has 0.01"));
  EXPECT_THAT(fault_of([](auto& c) { c.rates = {"6.7", "1", "2"}; }), HasSubstr("model.rates has 6.7"));
  EXPECT_THAT(fault_of([](auto& c) { c.rates = {"6", "1"}; }), HasSubstr("model.rates has 2 dilations"));
  EXPECT_THAT(fault_of([](auto& c) { c.model.dropout = 1.5; }), HasSubstr("model.dropout is 1.5"));
  EXPECT_THAT(fault_of([](auto& c) {
                c.num_classes = 2;
                c.class_names = {"a", "a"};
              }),
              HasSubstr("class_names has a twice"));
  EXPECT_THAT(
      fault_of([](auto& c) { c.loss = {.segmentation = 0, .pseudo = 0, .distance_scribble = 0, .distance_class = 0}; }),
      HasSubstr("are all 0"));
  EXPECT_THAT(fault_of([](auto& c) {
                c.sets.labels = "masks";
                c.loss.segmentation = 0;
              }),
              HasSubstr("loss.segmentation is 0"));
  EXPECT_THAT(fault_of([](auto& c) { c.eval_scales = {"x"}; }), HasSubstr("eval.scales has x"));
  const test::CommaLocale comma;
  EXPECT_THAT(fault_of([](auto& c) { c.eval_scales = {"0,5"}; }), HasSubstr("eval.scales has 0,5"));
  EXPECT_THAT(fault_of([](auto& c) { c.rates = {"6.7", "1", "2"}; }), HasSubstr("model.rates has 6.7"));
  EXPECT_THAT(fault_of([](auto& c) { c.batch_size = 1; }), HasSubstr("batch_size is 1"));
  EXPECT_EQ(fault_of([](auto& c) {
              c.batch_size = 1;
              c.sync_batchnorm = true;
            }),
            "no error");
}

TEST(SegmentationConfig, ReadsOnlyTheMapsThatALossWants) {
  SegmentationConfig config;
  EXPECT_EQ(config.planes().count(), 4);
  config.loss.distance_class = 0;
  EXPECT_EQ(config.planes().class_distance(), -1);
  config.loss.pseudo = 0;
  EXPECT_TRUE(config.planes().pseudo_labels) << "LoRM knows the foreground by them";
  config.loss.lorm = 0;
  EXPECT_FALSE(config.planes().pseudo_labels);
  EXPECT_EQ(config.model_options().type, ModelType::kDeepLabV2) << "and the network is made without it";
  config = SegmentationConfig();
  config.sets.labels = "masks";
  EXPECT_EQ(config.planes().count(), 1);
  EXPECT_EQ(config.loss_options().pseudo, 0);
  EXPECT_EQ(config.loss_options().lorm, 1);
}

TEST(SegmentationConfig, TakesTheValuesOfMasksFromAFileAndFromTheCommandLine) {
  SegmentationConfig config;
  bind_to(config, ConfigTree::from_text("data: {mask_values: {0: 0, 255: 1}}", "a.yml"));
  EXPECT_EQ(config.set_options("x", true).mask_values[255], 1);
  EXPECT_EQ(config.set_options("x", true).mask_values[7], 7);
  ConfigTree tree = ConfigTree::from_text("data: {mask_values: {0: 0, 255: 1}}", "a.yml");
  tree.set("data.mask_values={128: 1}", "--set");
  config = SegmentationConfig();
  bind_to(config, tree);
  EXPECT_EQ(config.set_options("x", true).mask_values[255], 255) << "what is typed replaces the file's";
  EXPECT_EQ(config.set_options("x", true).mask_values[128], 1);
  ConfigFields fields;
  config.describe(fields);
  SegmentationConfig again;
  bind_to(again, ConfigTree::from_text(fields.to_yaml(), "config.yml"));
  EXPECT_EQ(again.sets.mask_values, config.sets.mask_values);
  EXPECT_THAT(fault_of([](auto& c) {
                c.sets.mask_values = {{{"300", "1"}}};
              }),
              HasSubstr("data.mask_values has '300'"));
}

TEST(SegmentationTask, TakesNumberAndNamesOfTheClassesFromTheData) {
  SegmentationConfig config;
  config.data.train = "scenes:2:1";
  SegmentationTask::settle(config);
  EXPECT_EQ(config.num_classes, 5);
  EXPECT_THAT(config.class_names, ElementsAre("background", "disc", "square", "triangle", "ring"));
  config = SegmentationConfig();
  config.data.train = "scenes:2:1";
  config.num_classes = 7;
  try {
    SegmentationTask::settle(config);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("num_classes is 7, but scenes:2:1 has 5 classes (background, disc"));
  }
  config = SegmentationConfig();
  config.data.train = "scenes:2:1";
  config.class_names = {"a", "b", "c"};
  SegmentationTask::settle(config);
  EXPECT_EQ(config.num_classes, 3);
}

TEST(SegmentationTask, ASetThatNumbersTheClassesDifferentlyIsAnError) {
  const TempDir folder;
  const auto write_set = [&](const std::string& name, const std::string& classes) {
    for (const char* part : {"images", "masks"}) fs::create_directories(folder / name / part);
    common::write_set_picture({{8, 8}, 3, std::vector<std::uint8_t>(192, 90)}, folder / name / "images/a.png");
    Image mask{{8, 8}, 1, std::vector<std::uint8_t>(64, 1)};
    mask.pixels[0] = 0;
    mask.pixels[1] = 2;
    common::write_set_picture(mask, folder / name / "masks/a.png");
    if (!classes.empty()) std::ofstream(folder / name / "classes.txt") << classes;
    return (folder / name).string();
  };
  SegmentationConfig config;
  config.num_classes = 3;
  config.class_names = {"ground", "cell", "platelet"};
  config.sets.labels = "masks";
  SegmentationTask task(config);
  for (const bool training : {false, true}) {
    const auto open = [&](const std::string& set) {
      return training ? task.make_training_set(set) : task.make_dataset(set);
    };
    EXPECT_EQ(open(write_set("same", "ground\ncell\nplatelet\n"))->size(), 1);
    EXPECT_EQ(open(write_set("nameless", ""))->size(), 1);
    try {
      (void)open(write_set("other", "ground\nplatelet\ncell\n"));
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_THAT(error.message(),
                  HasSubstr("other numbers its classes differently from the model: platelet is class 2 in the model "
                            "and 1 in the data"));
    }
  }
}

/// Everything that could make two runs differ, small enough for a test.
SegmentationConfig small_config() {
  SegmentationConfig config;
  config.replicas = 4;
  config.num_classes = 5;
  config.batch_size = 2;
  config.epochs = 2;
  config.model.backbone.layers = 18;
  config.model.backbone.output_stride = 16;
  config.augment.crop = 48;
  config.data.train = "scenes:17:1";
  config.data.test = "scenes:7:2";
  config.schedule.warmup_epochs = 0.5;
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep_last = 100;
  config.eval.window = 64;
  config.eval.overlap = 0.25;
  return config;
}

TrainResult train(const Job& job, const fs::path& run, SegmentationConfig config, const std::string& resume = "none") {
  SegmentationTask task(config);
  return Trainer(job, task, config, {.recipe = "segmentation", .run_dir = run, .resume = resume}).fit();
}

const TrainResult& unbroken_result() {
  static const TempDir kFolder;
  static const TrainResult kResult = train(alone(), kFolder / "run", small_config());
  return kResult;
}

std::string digest(const fs::path& run) { return checkpoint_digest(load_checkpoint(run.string())); }

class SegmentationWorlds : public ::testing::TestWithParam<int> {};

TEST_P(SegmentationWorlds, FourReplicasGiveOneDigestAndOneMeanIou) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(),
            [&](Job& job) {
              const TrainResult result = train(job, shared, small_config());
              if (job.is_main()) fmt::print("miou {:.17g}\n", result.metrics.at(0).value);
            },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest(shared), digest(unbroken_result().run_dir));
  const auto last = [](const fs::path& run) {
    std::ifstream file(run / "summary.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = text.find("\"miou\"");
    return at == std::string::npos ? std::string("none") : text.substr(at, text.find('}', at) - at);
  };
  EXPECT_EQ(last(shared), last(unbroken_result().run_dir));
  EXPECT_NE(last(shared), "none");
}

INSTANTIATE_TEST_SUITE_P(TwoAndFour, SegmentationWorlds, ::testing::Values(2, 4));

/// One image per replica, too few for batch norm without sync.
SegmentationConfig synced_config() {
  SegmentationConfig config = small_config();
  config.sync_batchnorm = true;
  config.batch_size = 1;
  config.model_type = "deeplabv3p_lorm";
  config.schedule.type = "polynomial";
  config.schedule.power = 0.9;
  config.max_steps = 3;
  return config;
}

TEST(SegmentationRun, WithSyncedBatchNormTakesOnePictureAReplicaToOneDigest) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { (void)train(job, shared, synced_config()); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest(shared), digest(train(alone(), folder / "alone", synced_config()).run_dir));
}

TEST(SegmentationRun, IsResumedToTheSameDigest) {
  const TempDir folder;
  const auto steps = unbroken_result().run_dir / "checkpoints";
  SegmentationConfig config = small_config();
  const TrainResult result = train(alone(), folder / "resumed", config, (steps / "step-00000001").string());
  EXPECT_EQ(digest(result.run_dir), digest(unbroken_result().run_dir));
}

TEST(SegmentationRun, ALastBatchOfOnePictureIsRefusedBeforeTheFirstStep) {
  const TempDir folder;
  SegmentationConfig config = small_config();
  config.replicas = 1;
  config.drop_last = false;
  config.data.train = "scenes:9:1";
  try {
    (void)train(alone(), folder / "run", config);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("9 images in batches of 2 on 1 replicas leave a last batch of one"));
  }
}

TEST(SegmentationTally, LeavesClassesOutThatAreNowhere) {
  SegmentationTally tally({"a", "b", "c"}, nullptr);
  Batch batch;
  batch.indices = {0};
  batch.extra = std::vector<EvalPicture>{{at::zeros({2, 2}, at::kByte), "x.png"}};
  tally.add({{"classes", at::ones({1, 2, 2}, at::kByte)}}, batch);
  std::vector<std::string> names;
  for (const Metric& metric : tally.metrics({tally.bytes()})) names.push_back(metric.name);
  EXPECT_THAT(names, ::testing::ElementsAre("miou", "pixel_accuracy", "iou_a", "iou_b"));
}

/// Trains a step on this rank's own images and returns the parameters.
at::Tensor step_of(DistributedDataParallel<Segmenter>& model, const Job& job) {
  const at::Tensor images = at::randn({2, 3, 33, 33}) + job.rank();
  const at::Tensor labels = at::randint(3, {2, 33, 33}, at::kByte);
  const Outputs outputs = model(images, labels);
  (outputs.at("logits").square().mean() + outputs.at("lorm")).backward();
  double sum = 0;
  for (const auto& parameter : model.module().parameters()) sum += parameter.grad().square().sum().item<double>();
  return at::full({1}, sum, at::kDouble);
}

ModelOptions small_network() {
  ModelOptions options;
  options.classes = 3;
  options.backbone.layers = 18;
  return options;
}

bool same_on_all_ranks(const at::Tensor& value, const Job& job) {
  const at::Tensor largest = value.clone();
  const at::Tensor smallest = value.clone();
  job.group().all_reduce(largest, {.op = ReduceOp::kMax}).wait();
  job.group().all_reduce(smallest, {.op = ReduceOp::kMin}).wait();
  return largest.equal(smallest);
}

RANKS_TEST(SegmentationRun, GradientsStaySynchronisedWhenWeightsAreLoadedAfterWrapping, 2) {
  DistributedDataParallel<Segmenter> model(Segmenter(small_network()), job);
  // The original implementation restored pretrained weights here and lost its wrapper: from then on, each rank trained
  // on its own.
  Segmenter other(small_network());
  Weights weights;
  for (const auto& [name, value] : named_parameters_of(other)) weights.tensors[name] = at::full_like(value, 0.01);
  (void)copy_weights(named_parameters_of(model.module()), weights);
  EXPECT_TRUE(same_on_all_ranks(step_of(model, job), job));
}

RANKS_TEST(SegmentationRun, AParameterThatWasReplacedAfterWrappingIsAnErrorThatNamesIt, 2) {
  DistributedDataParallel<Segmenter> model(Segmenter(small_network()), job);
  model.module().replace_module("lorm", std::make_shared<Lorm>(512));
  try {
    (void)step_of(model, job);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("'lorm.gamma' was replaced"));
  }
}

/// Evaluates a network with fixed weights.
Evaluation evaluated(const Job& job, SegmentationTask& task, torch::nn::Module& model, std::int64_t batch_size) {
  return evaluate(job, task, model, task.make_dataset("scenes:9:3"), {.batch_size = batch_size, .workers = 0});
}

TEST(SegmentationEvaluation, DoesNotDependOnBatches) {
  const SegmentationConfig config = small_config();
  SegmentationTask task(config);
  const auto model = task.make_model();
  const Job job = alone();
  const Evaluation one = evaluated(job, task, *model, 1);
  const Evaluation four = evaluated(job, task, *model, 4);
  const auto& tally = dynamic_cast<const SegmentationTally&>(*one.tally);
  EXPECT_EQ(tally.confusion().bytes(), dynamic_cast<const SegmentationTally&>(*four.tally).confusion().bytes());
  EXPECT_GT(tally.confusion().pixels(), 0);
  EXPECT_THAT(report_of(task, one), AllOf(HasSubstr("mean IoU"), HasSubstr("background")));
}

}  // namespace segmentation_task_test
}  // namespace lockstep::segmentation
