// SPDX-License-Identifier: Apache-2.0
// Tasks with several output tensors, a multi-part loss, or an evaluation that needs all samples at once; and the record
// of the batch that ended a run.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/train/tally.h"
#include "lockstep/train/trainer.h"
#include "lockstep/view/run_curves.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace task_test {

namespace fs = std::filesystem;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

/// A tally that gathers numbers. Its metric is the median, which cannot be computed from sums.
class MedianTally final : public Tally {
 public:
  void add(const Outputs& outputs, const Batch& batch) override {
    for (std::int64_t i = 0; i < batch.size; ++i)
      errors_.push_back((outputs.at("sum") - batch.target)[i].item<float>());
  }
  [[nodiscard]] std::string bytes() const override { return nlohmann::json(errors_).dump(); }
  std::vector<Metric> metrics(const std::vector<std::string>& parts) override {
    std::vector<float> all;
    for (const std::string& part : parts) {
      for (const float error : nlohmann::json::parse(part).get<std::vector<float>>()) all.push_back(error);
    }
    samples_ = all.size();
    std::sort(all.begin(), all.end());
    return {{"median", std::abs(static_cast<double>(all.at(all.size() / 2))), true}};
  }
  [[nodiscard]] std::string report() const override { return fmt::format("median of {} errors\n", samples_); }
  [[nodiscard]] std::vector<fs::path> draw(const fs::path& folder) const override {
    std::ofstream(folder / "errors.txt") << samples_;
    return {folder / "errors.txt"};
  }

 private:
  std::vector<float> errors_;
  std::size_t samples_ = 0;
};

class TwoLines final : public torch::nn::Module {
 public:
  TwoLines() : a(register_module("a", torch::nn::Linear(1, 1))), b(register_module("b", torch::nn::Linear(1, 1))) {}
  torch::nn::Linear a;
  torch::nn::Linear b;
};

/// 61 points of 3 x + 1 as the sum of two lines. `poisoned`: the sample whose target is NaN.
class TwoLinesTask final : public Task {
 public:
  explicit TwoLinesTask(std::int64_t poisoned = -1) : poisoned_(poisoned) {}
  std::shared_ptr<Dataset> make_dataset(const std::string&) override { return points(0); }
  std::shared_ptr<Dataset> make_training_set(const std::string&) override { return points(0.25); }
  [[nodiscard]] Collate collate() const override {
    return [](std::vector<Sample> samples, const BatchContext& context) {
      Batch batch;
      std::vector<at::Tensor> data;
      std::vector<at::Tensor> targets;
      for (const Sample& sample : samples) data.push_back(sample.data), targets.push_back(sample.target);
      batch.data = at::stack(data);
      batch.target = at::stack(targets);
      batch.extra = context.epoch * 1000 + context.step;
      return batch;
    };
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<TwoLines>(); }
  Outputs run(torch::nn::Module& model, const Batch& batch) override {
    auto& net = dynamic_cast<TwoLines&>(model);
    if (model.is_training()) {
      EXPECT_EQ(std::any_cast<std::int64_t>(batch.extra), batch.epoch * 1000 + batch.step);
      if (on_step) on_step(batch);
    }
    const at::Tensor a = net.a(batch.data);
    const at::Tensor b = net.b(batch.data);
    return {{"a", a}, {"b", b}, {"sum", a + b}};
  }
  std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch) override {
    std::vector<LossTerm> terms = {{"error", at::mse_loss(outputs.at("sum"), batch.target)},
                                   {"size", 0.01 * outputs.at("a").pow(2).mean()}};
    if (forgets && batch.step == 1) terms.pop_back();
    return terms;
  }
  std::unique_ptr<Tally> make_tally() const override { return std::make_unique<MedianTally>(); }
  [[nodiscard]] std::string model_name() const override { return "two lines"; }

  bool forgets = false;
  std::function<void(const Batch&)> on_step;

 private:
  std::shared_ptr<Dataset> points(double noise) const {
    return lockstep::make_dataset(61, [noise, poisoned = poisoned_](std::int64_t i, SampleContext& context) {
      const double x = static_cast<double>(i) / 61 + context.random.uniform(-noise, noise);
      const double y = i == poisoned ? std::numeric_limits<double>::quiet_NaN() : 3 * x + 1;
      return Sample{at::full({1}, x), at::full({1}, y)};
    });
  }
  std::int64_t poisoned_;
};

TrainConfig config() {
  TrainConfig config;
  config.replicas = 3;
  config.batch_size = 4;
  config.epochs = 3;
  config.optimizer.lr = 0.05;
  config.log_every_steps = 1;
  config.data.train = config.data.test = "made up";
  return config;
}

TrainResult train(const Job& job, const fs::path& run, TwoLinesTask& task) {
  TrainConfig settings = config();
  return Trainer(job, task, settings, {.recipe = "lines", .run_dir = run}).fit();
}

std::vector<nlohmann::json> log_of(const fs::path& run) {
  std::ifstream log(run / "log.jsonl");
  std::vector<nlohmann::json> found;
  for (std::string line; std::getline(log, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

struct Whole {
  TempDir folder;
  std::string said;
  TrainResult result;
};

const Whole& whole() {
  static const auto* kRun = [] {
    auto* made = new Whole();
    TwoLinesTask task;
    ::testing::internal::CaptureStdout();
    made->result = train(alone(), made->folder / "run", task);
    made->said = ::testing::internal::GetCapturedStdout();
    return made;
  }();
  return *kRun;
}

TEST(TaskOfParts, ItsLossIsTheSumOfThePartsWhichTheLogHas) {
  for (const auto& line : log_of(whole().folder / "run")) {
    if (line["event"] != "step") continue;
    ASSERT_THAT(line["losses"], SizeIs(2)) << line;
    EXPECT_NEAR(line["loss"].get<double>(),
                line["losses"]["error"].get<double>() + line["losses"]["size"].get<double>(), 1e-6);
  }
}

TEST(TaskOfParts, ItsTallySeesEverySampleOnceAndSpeaksAndDrawsAtTheEnd) {
  EXPECT_EQ(whole().result.metrics.at(0).name, "median");
  EXPECT_THAT(whole().said, AllOf(HasSubstr("median of 61 errors\n"), HasSubstr("pictures/errors.txt")));
  EXPECT_TRUE(fs::exists(whole().folder / "run/pictures/errors.txt"));
}

class WorldsOfParts : public ::testing::TestWithParam<int> {};

TEST_P(WorldsOfParts, ThreeReplicasGiveTheSameMetricAndDigest) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(),
            [&](Job& job) {
              TwoLinesTask task;
              const TrainResult result = train(job, shared, task);
              if (result.metrics.at(0).value <= 0) throw InternalError("no metric");
            },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(checkpoint_digest(load_checkpoint(shared)),
            checkpoint_digest(load_checkpoint((whole().folder / "run").string())));
  EXPECT_EQ(log_of(shared).back()["metrics"], log_of(whole().folder / "run").back()["metrics"]);
}
INSTANTIATE_TEST_SUITE_P(TwoAndThree, WorldsOfParts, ::testing::Values(2, 3));

TEST(TaskOfParts, ABatchWithOtherPartsIsAnErrorThatNamesThem) {
  const TempDir folder;
  TwoLinesTask task;
  task.forgets = true;
  try {
    train(alone(), folder / "run", task);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("this batch lacks error, size"));
  }
}

fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  EXPECT_THAT(files, SizeIs(1));
  return files.at(0);
}

TEST(BadBatch, ALossThatIsNotFiniteIsNamedByItsPartAndItsBatchIsKept) {
  const TempDir folder;
  TwoLinesTask task(17);
  try {
    train(alone(), folder / "run", task);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("the loss of step"), HasSubstr("(error nan)")));
    EXPECT_THAT(error.hint(), HasSubstr((folder / "run/bad_batches/step-").string()));
  }
  SafetensorsMetadata words;
  const StateDict kept = read_safetensors(FileSystem::system(), only_file(folder / "run/bad_batches"), &words);
  const auto& indices = std::get<at::Tensor>(kept.at("indices"));
  ASSERT_TRUE(indices.eq(17).any().item<bool>()) << "not the batch with the bad sample";
  const auto& target = std::get<at::Tensor>(kept.at("target"));
  EXPECT_EQ(target.isnan().flatten().nonzero().item<std::int64_t>(), indices.eq(17).nonzero().item<std::int64_t>());
  EXPECT_EQ(words.at("sample.0000"), fmt::format("sample {}", indices[0].item<std::int64_t>()));
  EXPECT_EQ(words.at("fault"), "loss nan");
}

TEST(BadBatch, TheTensorsAreThoseThatTheStepSaw) {
  const TempDir folder;
  TwoLinesTask task(17);
  at::Tensor seen;
  task.on_step = [&](const Batch& batch) {
    if (std::find(batch.indices.begin(), batch.indices.end(), 17) != batch.indices.end() && !seen.defined()) {
      seen = batch.data.clone();
    }
  };
  EXPECT_THROW(train(alone(), folder / "run", task), DataError);
  const StateDict kept = read_safetensors(FileSystem::system(), only_file(folder / "run/bad_batches"));
  EXPECT_TRUE(std::get<at::Tensor>(kept.at("data")).equal(seen)) << "another augmentation";
}

TEST(BadBatch, OneThatTheTaskCannotTakeIsKeptToo) {
  const TempDir folder;
  TwoLinesTask task;
  task.on_step = [](const Batch& batch) {
    if (batch.epoch == 1 && batch.step == 2) throw DataError("boxes are not finite");
  };
  try {
    train(alone(), folder / "run", task);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "boxes are not finite");
    EXPECT_THAT(error.hint(), HasSubstr("its batch is kept in "));
  }
  SafetensorsMetadata words;
  (void)read_safetensors(FileSystem::system(), only_file(folder / "run/bad_batches"), &words);
  EXPECT_EQ(words.at("fault"), "boxes are not finite");
  EXPECT_EQ(words.at("epoch"), "2");
}

TEST(TotalBatchSize, IsDividedOverTheReplicas) {
  const TempDir folder;
  TwoLinesTask task;
  TrainConfig settings = config();
  settings.total_batch_size = 15;
  (void)Trainer(alone(), task, settings, {.recipe = "lines", .run_dir = folder / "run"}).fit();
  EXPECT_EQ(settings.batch_size.value(), 5);
  TrainConfig uneven = config();
  uneven.total_batch_size = 16;
  Trainer trainer(alone(), task, uneven, {.recipe = "lines", .run_dir = folder / "other"});
  EXPECT_THROW((void)trainer.fit(), UsageError);
}

std::string read(const fs::path& path) { return FileSystem::system().read(path); }

/// A task whose metric is `value`(n) for the n-th evaluation, starting at 1.
class GivenMetric final : public Task {
 public:
  explicit GivenMetric(std::function<double(int)> value) : value_(std::move(value)) {}
  std::shared_ptr<Dataset> make_dataset(const std::string& path) override { return inner_.make_dataset(path); }
  std::shared_ptr<torch::nn::Module> make_model() override { return inner_.make_model(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override { return inner_.forward(model, batch); }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override { return inner_.loss(output, batch); }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override { return inner_.count(output, batch); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor&) const override {
    return {{"skill", value_(++evaluations_)}};
  }

  [[nodiscard]] std::string model_name() const override { return "late"; }

 private:
  test::NoisyTask inner_;
  std::function<double(int)> value_;
  mutable int evaluations_ = 0;
};

/// Trains for 3 epochs and returns the result; expects JSON in every file of the run. The metric is NaN in the first
/// `late` evaluations.
TrainResult train_late(const fs::path& run, int late) {
  GivenMetric task([late](int number) { return number <= late ? std::nan("") : 0.25 / number; });
  TrainConfig config = test::noisy_config();
  config.max_steps = 9;
  Trainer trainer(alone(), task, config, {.recipe = "late", .run_dir = run});
  return trainer.fit();
}

/// The epoch lines of log.jsonl.
std::vector<Json> epochs_of(const fs::path& run) {
  std::vector<Json> epochs;
  std::istringstream lines(read(run / "log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    if (json["event"] == "epoch") epochs.push_back(std::move(json));
  }
  return epochs;
}

std::vector<Json> skills_of(const fs::path& run) {
  std::vector<Json> skills;
  for (const Json& epoch : epochs_of(run)) skills.push_back(epoch["metrics"]["skill"]);
  return skills;
}

TEST(NanMetric, AtTheFirstEvaluationIsNotTheBestForEver) {
  const TempDir folder;
  const TrainResult result = train_late(folder / "run", 1);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->value, 0.125);
  EXPECT_EQ(result.best_step, 6);
  EXPECT_EQ(load_checkpoint((folder / "run:best").string()).step(), 6);
  EXPECT_THAT(skills_of(folder / "run"), ElementsAre(Json(), Json(0.125), Json(0.25 / 3)));
  EXPECT_EQ(Json::parse(read(folder / "run/summary.json"))["best"]["step"], 6);
}

TEST(TiedMetric, HasItsBestWhereTheLossIsLowest) {
  const TempDir folder;
  GivenMetric task([](int) { return 0.0; });
  TrainConfig config = test::noisy_config();
  config.schedule.type = "none";  // so that the length may change
  config.max_steps = 15;
  const TrainResult first = Trainer(alone(), task, config, {.recipe = "tied", .run_dir = folder / "run"}).fit();
  config.max_steps = 24;
  const TrainResult whole =
      Trainer(alone(), task, config, {.recipe = "tied", .run_dir = folder / "run", .resume = "auto"}).fit();
  const std::vector<Json> epochs = epochs_of(folder / "run");
  ASSERT_GT(epochs.size(), 4U);
  const auto lowest = std::ranges::min_element(
      epochs, [](const Json& a, const Json& b) { return a["loss"].get<double>() < b["loss"].get<double>(); });
  ASSERT_NE((*lowest)["step"], epochs.front()["step"]) << "else the test shows nothing";
  EXPECT_EQ(whole.best_step, (*lowest)["step"]);
  EXPECT_EQ(load_checkpoint((folder / "run:best").string()).step(), whole.best_step);
  EXPECT_EQ(Json::parse(read(folder / "run/summary.json"))["best"]["step"], whole.best_step);
  EXPECT_GT(first.best_step, epochs.front()["step"].get<std::int64_t>());
}

TEST(Evaluations, BeginWithTheEpochThatTheSettingsNameAndTheLastOneIsAlwaysThere) {
  const TempDir folder;
  const auto evaluated = [&](const std::string& run, std::int64_t from) {
    GivenMetric task([](int number) { return 0.25 / number; });
    TrainConfig config = test::noisy_config();
    config.max_steps = 9;
    config.eval_from_epoch = from;
    (void)Trainer(alone(), task, config, {.recipe = "late", .run_dir = folder / run}).fit();
    std::vector<bool> there;
    for (const Json& epoch : epochs_of(folder / run)) there.push_back(!epoch["metrics"].empty());
    return there;
  };
  EXPECT_THAT(evaluated("all", 0), ElementsAre(true, true, true));
  EXPECT_THAT(evaluated("later", 1), ElementsAre(false, true, true));
  EXPECT_THAT(evaluated("never", 7), ElementsAre(false, false, true));
}

TEST(NanMetric, IsNullInEveryFileOfTheRun) {
  const TempDir folder;
  (void)train_late(folder / "run", 3);
  EXPECT_THAT(skills_of(folder / "run"), ElementsAre(Json(), Json(), Json()));
  const Json summary = Json::parse(read(folder / "run/summary.json"));
  EXPECT_TRUE(summary["metrics"]["skill"].is_null());
  EXPECT_TRUE(summary["best"]["value"].is_null());
  const auto curves = view::read_run_curves(folder / "run");
  EXPECT_EQ(curves.damaged, 0);
  EXPECT_FALSE(curves.metrics.contains("skill"));
}

}  // namespace task_test
}  // namespace lockstep
