// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/run_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"
#include "lockstep/comm/objects.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sinks_test {

using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using test::noisy_config;
using test::NoisyTask;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Writes one word for each event.
class WordSink final : public RunSink {
 public:
  void on_start(const RunStart& event) override { note("start " + std::to_string(event.step)); }
  void on_step(const StepResult& event) override { note("step " + std::to_string(event.step)); }
  void on_evaluation(const EvaluationResult& event) override {
    note(event.metrics.front().name + " at " + std::to_string(event.step));
  }
  void on_epoch(const EpochResult& event) override { note("epoch " + std::to_string(event.epoch)); }
  void on_save(const SaveResult& event) override { saved.push_back(event); }
  void on_end(const RunEnd& event) override { note("end " + std::to_string(event.result.steps)); }

  std::vector<std::string> words;
  std::vector<SaveResult> saved;

 private:
  void note(std::string word) { words.push_back(std::move(word)); }
};

/// 3 steps, which are one epoch, by default.
TrainResult train(const Job& job, const std::filesystem::path& run_dir, std::vector<std::shared_ptr<RunSink>> sinks,
                  const std::string& resume = "none", std::int64_t steps = 3) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  config.max_steps = steps;
  config.schedule.type = "none";  // else a run of another length is another run
  Trainer trainer(job, task, config,
                  {.recipe = "noisy", .run_dir = run_dir, .resume = resume, .sinks = std::move(sinks)});
  return trainer.fit();
}

TEST(RunSink, HearsStepsThenTheEvaluationThenTheEpochAndTheEnd) {
  const test::TempDir folder;
  const auto sink = std::make_shared<WordSink>();
  (void)train(alone(), folder / "run", {sink});
  EXPECT_THAT(sink->words, ElementsAre("start 0", "step 1", "step 2", "step 3", "error at 3", "epoch 0", "end 3"));
}

TEST(RunSink, OfARunThatResumesHearsOnlyOfTheStepsThatAreDone) {
  const test::TempDir folder;
  (void)train(alone(), folder / "run", {}, "none", 2);
  const auto sink = std::make_shared<WordSink>();
  (void)train(alone(), folder / "run", {sink}, "auto", 3);
  EXPECT_THAT(sink->words, ElementsAre("start 2", "step 3", "error at 3", "epoch 0", "end 3"));
}

TEST(RunSink, OfARunThatIsCompleteHearsNoEndASecondTime) {
  const test::TempDir folder;
  (void)train(alone(), folder / "run", {});
  const auto sink = std::make_shared<WordSink>();
  (void)train(alone(), folder / "run", {sink}, "auto");
  EXPECT_THAT(sink->words, ElementsAre("start 3"));
}

TEST(RunSink, HearsOfEachCheckpointOnceItIsThere) {
  const test::TempDir folder;
  const auto sink = std::make_shared<WordSink>();
  (void)train(alone(), folder / "run", {sink});
  std::vector<std::int64_t> steps;
  for (const SaveResult& saved : sink->saved) {
    EXPECT_TRUE(std::filesystem::exists(saved.path / "manifest.json")) << saved.path;
    steps.push_back(saved.step);
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
  EXPECT_THAT(sink->saved.back().names, ElementsAre("best"));
}

TEST(RunSink, OfEveryRankHearsTheSameLossesAndMetrics) {
  const test::TempDir folder;
  run_ranks(
      current_test(),
      [](Job& job) {
        std::vector<std::string> heard;
        const auto sink = run_callbacks(
            {.on_step = [&](const StepResult& e) { heard.push_back(std::to_string(*e.loss)); },
             .on_epoch = [&](const EpochResult& e) { heard.push_back(std::to_string(e.metrics.front().value)); }});
        (void)train(job, std::getenv("LOCKSTEP_TEST_RUN"), {sink});
        EXPECT_EQ(heard.size(), 4U);
        for (const auto& others : all_gather_object(job.group(), heard)) EXPECT_EQ(others, heard);
      },
      {.world = 2, .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}}});
}

TEST(RunSink, OfEveryRankHearsTheSameStepReport) {
  const test::TempDir folder;
  run_ranks(
      current_test(),
      [](Job& job) {
        std::shared_ptr<const view::StepReport> epoch;
        std::shared_ptr<const view::StepReport> whole;
        const auto sink = run_callbacks({.on_epoch = [&](const EpochResult& e) { epoch = e.step_report; },
                                         .on_end = [&](const RunEnd& e) { whole = e.step_report; }});
        (void)train(job, std::getenv("LOCKSTEP_TEST_RUN"), {sink});
        ASSERT_EQ(epoch->ranks.size(), 2U);
        EXPECT_EQ(epoch->last_step, 3);
        for (const view::RankFigures& rank : epoch->ranks) {
          EXPECT_EQ(rank.steps, 3);
          for (const auto part : {view::StepPart::kData, view::StepPart::kForward, view::StepPart::kBackward,
                                  view::StepPart::kExposed, view::StepPart::kOptimizer, view::StepPart::kEvaluate}) {
            EXPECT_GT(rank.of(part), 0) << view::name_of(part);
          }
          EXPECT_GT(rank.workers.cpu, 0);
          EXPECT_GT(rank.buckets, 0);
        }
        EXPECT_EQ(whole->ranks[1].steps, 3);
        const std::string mine = view::to_json(*epoch);
        for (const auto& others : all_gather_object(job.group(), mine)) EXPECT_EQ(others, mine);
      },
      {.world = 2, .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}}});
  EXPECT_THAT(FileSystem::system().read(folder / "run/log.jsonl"),
              HasSubstr(R"({"event": "report", "epoch": 1, "step": 3)"));
  EXPECT_THAT(FileSystem::system().read(folder / "run/summary.json"), HasSubstr(R"("report": {"findings":[])"));
}

TEST(RunSink, ThatThrowsEndsTheRunAsTheProgramsOwnFaultWithTheStep) {
  const test::TempDir folder;
  const auto sink = run_callbacks({.on_step = [](const StepResult&) { throw std::runtime_error("no room"); }});
  try {
    (void)train(alone(), folder / "run", {sink});
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(fault::headline(error), HasSubstr("on_step of a sink"));
    EXPECT_THAT(fault::headline(error), HasSubstr("step 1"));
  }
}

}  // namespace sinks_test
}  // namespace lockstep
