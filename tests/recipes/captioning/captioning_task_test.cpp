// SPDX-License-Identifier: Apache-2.0
// End-to-end captioning: self-critical training stays in sync, its result depends neither on the number of processes
// nor on interruptions, and a checkpoint contains the vocabulary.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "captioning/config.h"
#include "captioning/data/collate.h"
#include "captioning/metrics/scores.h"
#include "captioning/metrics/tokens.h"
#include "captioning/model/search.h"
#include "captioning/tally.h"
#include "captioning/task.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_task_test {

namespace fs = std::filesystem;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

std::string fault_of(const std::function<void(CaptioningConfig&)>& change) {
  CaptioningConfig config;
  config.data.train = "somewhere";
  change(config);
  try {
    config.validate();
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

TEST(CaptioningPresets, AllBindAndAreValid) {
  for (const auto& [name, yaml] : presets()) {
    CaptioningConfig config;
    config.data.train = config.data.test = "somewhere";
    ConfigFields fields;
    config.describe(fields);
    fields.bind(ConfigTree::from_text(yaml, name));
    EXPECT_NO_THROW(config.validate()) << name;
  }
  EXPECT_TRUE(presets().count("smoke"));
}

TEST(CaptioningConfig, NamesTheKeyThatCannotBe) {
  const auto one_sample = [](auto& c) {
    c.self_critical.samples = 1;
    c.self_critical.start = "first_epoch";
  };
  EXPECT_THAT(fault_of(one_sample), HasSubstr("self_critical.samples is 1"));
  EXPECT_THAT(fault_of([](auto& c) { c.eval.beam_size = 0; }), HasSubstr("eval.beam_size is 0"));
  EXPECT_THAT(fault_of([](auto& c) { c.loss.label_smoothing = 1; }), HasSubstr("loss.label_smoothing is 1"));
  EXPECT_THAT(fault_of([](auto& c) { c.sets.max_words = 0; }), HasSubstr("data.max_words is 0"));
  EXPECT_THAT(fault_of([](auto& c) { c.scheduled_sampling.max_prob = 2; }),
              HasSubstr("scheduled_sampling.max_prob is 2"));
  EXPECT_THAT(fault_of([](auto& c) { c.stages.patience = 3; }), HasSubstr("only one stage (stop_epoch=0)"));
  EXPECT_EQ(fault_of([&](auto& c) {
              one_sample(c);
              c.self_critical.baseline = "greedy";
            }),
            "no error");
}

TEST(CaptioningConfig, ScheduledSamplingRisesInStepsUpToItsLimit) {
  CaptioningConfig config;
  config.scheduled_sampling = {.start = 6, .inc_every = 5, .inc_prob = 0.05, .max_prob = 0.12};
  EXPECT_EQ(config.scheduled_sampling_at(5), 0);
  EXPECT_EQ(config.scheduled_sampling_at(10), 0);
  EXPECT_EQ(config.scheduled_sampling_at(11), 0.05);
  EXPECT_EQ(config.scheduled_sampling_at(16), 0.1);
  EXPECT_EQ(config.scheduled_sampling_at(60), 0.12);
}

/// Everything that could make two runs differ, scaled down for a test: dropout, scheduled sampling, sampled captions.
CaptioningConfig small_config(const std::string& model = "transformer") {
  CaptioningConfig config;
  config.replicas = 4;
  config.batch_size = 2;
  config.epochs = 4;
  config.data.train = "scenes:18:1";
  config.data.test = "scenes:7:2";
  config.sets.height = config.sets.width = 48;
  config.sets.captions_per_image = 3;
  config.model_type = model;
  config.model.backbone.width = 8;
  config.model.dim = 32;
  config.model.heads = 4;
  config.model.encoder_layers = config.model.decoder_layers = 1;
  config.model.feed_forward = 64;
  config.scheduled_sampling = {.start = 0, .inc_every = 1, .inc_prob = 0.3, .max_prob = 0.3};
  config.self_critical.samples = 3;
  config.stages.stop_epoch = 2;
  config.stages.roll_back = false;
  config.stages.lr = 1e-3;
  config.eval.beam_size = 2;
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep_last = 100;
  return config;
}

CaptioningConfig x_linear_config() {
  CaptioningConfig config = small_config("x_linear");
  config.self_critical.baseline = "greedy";
  return config;
}

TrainResult train(const Job& job, const fs::path& run, CaptioningConfig config, const std::string& resume = "none") {
  CaptioningTask task(config);
  return Trainer(job, task, config, {.recipe = "captioning", .run_dir = run, .resume = resume}).fit();
}

const TrainResult& unbroken_result() {
  static const TempDir kFolder;
  static const TrainResult kResult = train(alone(), kFolder / "run", small_config());
  return kResult;
}

std::string digest(const fs::path& run) { return checkpoint_digest(load_checkpoint(run.string())); }

class CaptioningWorlds : public ::testing::TestWithParam<int> {};

TEST_P(CaptioningWorlds, FourReplicasGiveOneDigestThroughBothStages) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { (void)train(job, shared, small_config()); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest(shared), digest(unbroken_result().run_dir));
  const auto said = [](const fs::path& run) { return FileSystem::system().read(run / "result/result_val_4.json"); };
  EXPECT_EQ(said(shared), said(unbroken_result().run_dir)) << "each image's caption is gathered once";
}
INSTANTIATE_TEST_SUITE_P(TwoAndFour, CaptioningWorlds, ::testing::Values(2, 4));

TEST(CaptioningRun, XLinearWithGreedyBaselineGivesOneDigestOnTwoProcesses) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { (void)train(job, shared, x_linear_config()); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest(shared), digest(train(alone(), folder / "alone", x_linear_config()).run_dir));
}

TEST(CaptioningRun, IsResumedInBothStagesToTheSameDigest) {
  const fs::path steps = unbroken_result().run_dir / "checkpoints";
  // 18 images, 4 replicas and batches of 2 give 3 steps per epoch; the second stage starts after step 6.
  for (const int step : {2, 6, 8, 9}) {
    const TempDir folder;
    fs::copy(unbroken_result().run_dir, folder / "run", fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints")) {
      if (entry.is_directory() && entry.path().filename() > fmt::format("step-{:08}", step)) fs::remove_all(entry);
    }
    EXPECT_EQ(digest(train(alone(), folder / "run", small_config(), "auto").run_dir), digest(unbroken_result().run_dir))
        << "from step " << step;
  }
}

std::string read_log(const fs::path& run) { return FileSystem::system().read(run / "log.jsonl"); }

TEST(CaptioningRun, TheFirstStageEndsWhenEvaluationsBringNoGain) {
  const TempDir folder;
  CaptioningConfig config = small_config();
  config.epochs = 8;
  config.optimizer.lr = 1e-12;  // the model does not learn: the second evaluation is no better than the first
  config.stages = {.stop_epoch = 7, .patience = 1, .epochs = 1, .lr = 1e-12, .roll_back = false};
  const TrainResult result = train(alone(), folder / "run", config);
  EXPECT_THAT(read_log(folder / "run"), HasSubstr("\"reason\": \"patience\""));
  EXPECT_LT(result.epochs, 8);
  EXPECT_THAT(read_log(folder / "run"),
              HasSubstr(fmt::format("\"event\": \"refresh\", \"epoch\": {}", result.epochs - 1)))
      << "the second stage has one epoch";
}

/// The task's step as a network, for custom loops.
struct StepNet : torch::nn::Module {
  StepNet(CaptioningTask& of_task, std::shared_ptr<torch::nn::Module> of_net)
      : task(of_task), net(register_module("net", std::move(of_net))) {}
  Outputs forward(const Batch& batch) { return task.run(*net, batch); }
  CaptioningTask& task;
  std::shared_ptr<torch::nn::Module> net;
};

Batch batch_of(CaptioningTask& task, const std::shared_ptr<Dataset>& set, std::int64_t first) {
  std::vector<Sample> samples;
  for (std::int64_t i = first; i < first + 2; ++i) {
    SampleContext context(0, 0, i);
    samples.push_back(set->get(i, context));
  }
  return task.collate()(std::move(samples), {});
}

/// A self-critical task with its network and this rank's own images.
struct SelfCritical {
  explicit SelfCritical(const Job& job) : task(config) {
    const auto set = task.make_training_set("scenes:8:1");
    task.begin_epoch({.epoch = 0, .stage = 2});
    seed_all(1);
    net = std::make_shared<StepNet>(task, task.make_model());
    batch = batch_of(task, set, 2 * job.rank());
  }

  template <class Forward>
  double gradient_of(const Forward& forward) {
    for (const auto& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
    seed_all(7);
    task.loss_terms(forward(batch), batch).at(0).value.backward();
    double sum = 0;
    for (const auto& parameter : net->parameters()) sum += parameter.grad().square().sum().template item<double>();
    return sum;
  }

  CaptioningConfig config = small_config();
  CaptioningTask task;
  std::shared_ptr<StepNet> net;
  Batch batch;
};

bool same_on_all_ranks(double value, const Job& job) {
  const at::Tensor largest = at::full({1}, value, at::kDouble);
  const at::Tensor smallest = largest.clone();
  job.group().all_reduce(largest, {.op = ReduceOp::kMax}).wait();
  job.group().all_reduce(smallest, {.op = ReduceOp::kMin}).wait();
  return largest.equal(smallest);
}

RANKS_TEST(SelfCriticalStep, HasTheSameGradientsOnAllRanks, 2) {
  SelfCritical own(job);
  DistributedDataParallel<StepNet> model(own.net, job);
  EXPECT_TRUE(same_on_all_ranks(own.gradient_of([&](const Batch& batch) { return model(batch); }), job));
}

RANKS_TEST(SelfCriticalStep, HasOthersWhereSynchronisationIsRemoved, 2) {
  SelfCritical own(job);
  DistributedDataParallel<StepNet> model(own.net, job);
  const NoSync local = model.no_sync();
  EXPECT_FALSE(same_on_all_ranks(own.gradient_of([&](const Batch& batch) { return model(batch); }), job));
}

/// The original implementation called model.module.decode(): gradients were silently not reduced.
RANKS_TEST(SelfCriticalStep, PastTheWrapperIsAnError, 2) {
  SelfCritical own(job);
  DistributedDataParallel<StepNet> model(own.net, job);
  try {
    (void)own.gradient_of([&](const Batch& batch) { return model.module().forward(batch); });
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("did not come through a forward of this DistributedDataParallel"));
  }
}

RANKS_TEST(SelfCriticalStep, DecodingWithoutGradientsMayHappenOnOneRankAlone, 2) {
  SelfCritical own(job);
  DistributedDataParallel<StepNet> model(own.net, job);
  if (job.is_main()) {
    const NoGrad no_grad;
    own.net->eval();
    (void)model(own.batch);
    auto& captioner = dynamic_cast<Captioner&>(*own.net->net);
    (void)greedy(captioner, captioner.encode(own.batch.data, {}), 8);
    own.net->train();
  }
  EXPECT_TRUE(same_on_all_ranks(own.gradient_of([&](const Batch& batch) { return model(batch); }), job));
}

TEST(SelfCriticalStep, DrawsAndScoresCaptionsUnderOneDistribution) {
  SelfCritical own(alone());
  own.config.model.dropout = 0.5;
  own.net = std::make_shared<StepNet>(own.task, own.task.make_model());
  seed_all(5);
  const Outputs first = own.net->forward(own.batch);
  EXPECT_TRUE(own.net->net->is_training()) << "as it was before";
  const at::Tensor words = first.at("words");
  EXPECT_EQ(words.size(0), 2 * own.config.self_critical.samples);
  EXPECT_EQ(first.at("chosen").sum(1).gt(0).all().item<bool>(), true);
  auto& captioner = dynamic_cast<Captioner&>(*own.net->net);
  seed_all(5);
  const Memory memory = captioner.encode(own.batch.data, {});
  captioner.eval();
  const at::Tensor inputs = at::cat({at::zeros({words.size(0), 1}, words.options()), words.slice(1, 0, -1)}, 1);
  EXPECT_TRUE(captioner.logits(repeated(memory, 3), inputs, 0).equal(first.at("logits")))
      << "no dropout in the decoder";
  for (const at::Tensor& advantages : first.at("advantage").view({2, 3}).unbind(0)) {
    EXPECT_NEAR(advantages.sum().item<double>(), 0, 1e-4) << "against the mean of the others they cancel out";
  }
}

TEST(CaptioningTask, TakesTheVocabularyOfACheckpoint) {
  const CaptioningConfig config = small_config();
  CaptioningTask trained(config);
  (void)trained.make_training_set("scenes:8:1");
  const auto model = trained.make_model();
  StateDict state;
  for (const auto& buffer : model->named_buffers()) state[buffer.key()] = buffer.value();
  CaptioningTask fresh(config);
  fresh.check_model_state(state);
  EXPECT_EQ(fresh.vocabulary()->to_text(), trained.vocabulary()->to_text());
  EXPECT_NO_THROW((void)fresh.make_model());
}

TEST(CaptioningTask, OtherWordsThanTheCheckpointsAreAnErrorThatNamesThem) {
  const TempDir folder;
  CaptioningConfig config = small_config();
  (void)train(alone(), folder / "run", config);
  const Checkpoint checkpoint = load_checkpoint((folder / "run").string());
  std::string words = "zebra\n";
  CaptioningTask task(config);
  (void)task.make_training_set(config.data.train);
  words += task.vocabulary()->to_text();
  std::ofstream(folder / "words.txt") << words;
  config.sets.vocabulary = (folder / "words.txt").string();
  CaptioningTask other(config);
  (void)other.make_training_set(config.data.train);
  try {
    other.check_model_state(checkpoint.state("model"));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("the vocabulary differs from the checkpoint's"));
    EXPECT_THAT(error.message(), HasSubstr("word 1 is 'zebra' instead of"));
  }
}

TEST(CaptioningTask, FeaturesOfAnotherWidthThanTheCheckpointsAreAnErrorThatNamesBoth) {
  CaptioningTask task(small_config());
  const auto state_of = [](std::int64_t width) {
    return StateDict{{"vocabulary", at::full({2}, 'a', at::kByte).index_fill_(0, at::full({1}, 1, at::kLong), '\n')},
                     {"feature_width", at::full({1}, width, at::kLong)}};
  };
  task.check_model_state(state_of(8));
  try {
    task.check_model_state(state_of(12));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("the features are 8 wide, but the checkpoint's were 12"));
  }
}

/// With other captions, the ids would mean different words, and every reward would be wrong.
TEST(CaptioningTask, DocumentFrequenciesOfOtherCaptionsAreAnErrorThatNamesTheFile) {
  const TempDir folder;
  CaptioningConfig config = small_config();
  config.self_critical.document_frequencies = (folder / "frequencies").string();
  CaptioningTask first(config);
  (void)first.make_training_set("scenes:8:1");
  EXPECT_NO_THROW((void)first.make_training_set("scenes:8:1")) << "the file is read";
  for (const auto& other : {std::pair("scenes:9:1", 1), std::pair("scenes:8:1", 3)}) {
    config.sets.min_word_count = other.second;
    CaptioningTask second(config);
    try {
      (void)second.make_training_set(other.first);
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_THAT(error.message(), HasSubstr((folder / "frequencies").string()));
    }
  }
  config.stages = {};
  config.self_critical.document_frequencies = (folder / "none").string();
  CaptioningTask plain(config);
  (void)plain.make_training_set("scenes:8:1");
  EXPECT_FALSE(std::filesystem::exists(folder / "none")) << "nothing is rewarded";
}

TEST(CaptioningTask, AVocabularyOfAnotherSizeThanWasSaidIsAnError) {
  CaptioningConfig config = small_config();
  config.sets.vocabulary_size = 9487;
  CaptioningTask task(config);
  EXPECT_THROW((void)task.make_training_set("scenes:8:1"), UsageError);
}

/// CIDEr-D of a result file, image by image.
double cider_d_of(const std::string& result, const CaptionDataset& set) {
  constexpr std::string_view kBefore = "\"caption\": \"";
  std::vector<WordedCaption> captions;
  for (std::size_t at = result.find(kBefore); at != std::string::npos; at = result.find(kBefore, at)) {
    at += kBefore.size();
    const auto index = std::ssize(captions);
    WordedCaption caption{.index = index, .hypothesis = words_of(result.substr(at, result.find('"', at) - at))};
    for (const std::string& said : set.captions(index).captions) caption.references.push_back(words_of(said));
    captions.push_back(std::move(caption));
  }
  return score_captions(std::move(captions)).cider_d;
}

TEST(CaptioningTally, DoesNotDependOnBatchesAndScoresEachImageOnce) {
  const CaptioningConfig config = small_config();
  CaptioningTask task(config);
  (void)task.make_training_set("scenes:8:1");
  seed_all(2);
  const auto model = task.make_model();
  const Job job = alone();
  const auto set = std::dynamic_pointer_cast<CaptionDataset>(task.make_dataset("scenes:9:3"));
  const auto evaluated = [&](std::int64_t batch_size) {
    return evaluate(job, task, *model, set, {.batch_size = batch_size, .workers = 0});
  };
  const Evaluation one = evaluated(1);
  const Evaluation four = evaluated(4);
  EXPECT_EQ(to_json(one.metrics), to_json(four.metrics));
  EXPECT_EQ(one.metrics.at(0).name, "cider_d");
  const std::string result = one.tally->results(7).at("result_val_7.json");
  EXPECT_EQ(result, four.tally->results(7).at("result_val_7.json"));
  EXPECT_THAT(result, HasSubstr("\"image_id\": "));
  EXPECT_EQ(std::count(result.begin(), result.end(), '{'), 9);
  EXPECT_NEAR(one.metrics.at(0).value, cider_d_of(result, *set), 1e-9) << "each caption against its own references";
  const TempDir folder;
  EXPECT_EQ(one.tally->draw(folder.path()).size(), 1U);
}

}  // namespace captioning_task_test
}  // namespace lockstep::captioning
