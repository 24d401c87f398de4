// SPDX-License-Identifier: Apache-2.0
// A run's reports to users and programs.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"
#include "lockstep/comm/objects.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/view/trace_file.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/event_files.h"
#include "support/nested_trace.h"
#include "support/run_ranks.h"
#include "support/shell.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/report/metrics_sink.h"
#include "train/report/tensorboard_sink.h"

namespace lockstep {
namespace sinks_test {

using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using test::noisy_config;
using test::NoisyTask;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A sink that writes one word for each event.
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

/// Trains for `steps` steps, by default one epoch.
TrainResult train(const Job& job, const std::filesystem::path& run_dir, std::vector<std::shared_ptr<RunSink>> sinks,
                  const std::string& resume = "none", std::int64_t steps = 3) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  config.max_steps = steps;
  config.schedule.type = "none";  // with a schedule, the steps would depend on the run's length
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
            EXPECT_GT(rank.time_in(part), 0) << view::name_of(part);
          }
          EXPECT_GT(rank.workers.cpu, 0);
          EXPECT_GT(rank.buckets, 0);
        }
        EXPECT_EQ(whole->ranks[1].steps, 3);
        const std::string own = view::to_json(*epoch);
        for (const auto& others : all_gather_object(job.group(), own)) EXPECT_EQ(others, own);
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

namespace curves_test {

namespace fs = std::filesystem;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Json = nlohmann::json;

// A training run's reports to users and Prometheus while it runs: TensorBoard event files and the /metrics page.

struct Wanted {
  std::int64_t steps = 4;
  std::string tensorboard = "auto";
  std::int64_t histograms = 0;
  std::string metrics_address = {};
  std::string resume = "none";
  std::vector<std::shared_ptr<RunSink>> sinks = {};
};

TrainResult train(const Job& job, const fs::path& run_dir, const Wanted& wanted) {
  test::NoisyTask task;
  TrainConfig config = test::noisy_config();
  config.max_steps = wanted.steps;
  config.schedule.type = "none";  // with a schedule, the steps would depend on the run's length
  config.tensorboard = wanted.tensorboard;
  config.tensorboard_histograms = wanted.histograms;
  config.metrics_address = wanted.metrics_address;
  Trainer trainer(job, task, config,
                  {.recipe = "noisy", .run_dir = run_dir, .resume = wanted.resume, .sinks = wanted.sinks});
  return trainer.fit();
}

/// The steps of the scalar `tag`, in the order displayed.
std::vector<std::int64_t> steps_of(const std::vector<Json>& values, const std::string& tag) {
  std::vector<std::int64_t> steps;
  for (const Json& value : values) {
    if (value.value("tag", "") == tag && value.contains("scalar")) steps.push_back(value["step"]);
  }
  return steps;
}

std::vector<std::string> tags_of(const std::vector<Json>& values) {
  std::vector<std::string> tags;
  for (const Json& value : values) {
    const std::string tag = value.value("tag", "");
    if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  }
  return tags;
}

std::size_t event_files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(TensorBoard, ShowsTheLossesThatTheSinksHear) {
  const test::TempDir folder;
  std::vector<float> heard;
  const auto sink =
      run_callbacks({.on_step = [&](const StepResult& e) { heard.push_back(static_cast<float>(*e.loss)); }});
  (void)train(alone(), folder / "run", {.sinks = {sink}});
  const auto values = test::event_values(folder / "run/tensorboard");
  std::vector<float> shown;
  for (const Json& value : values) {
    if (value.value("tag", "") == "Loss/total") shown.push_back(value["scalar"]);
  }
  EXPECT_EQ(shown, heard);
  EXPECT_THAT(steps_of(values, "Lr/pg_0"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(tags_of(values), IsSupersetOf({"run/settings", "run/banner", "Test/error", "Loss/mean_of_epoch",
                                             "Speed/seconds_per_epoch", "Speed/data_wait_percent", "Memory/peak_MB"}));
}

TEST(TensorBoard, ListsTheSettingsAndTheFinalMetrics) {
  const test::TempDir folder;
  const TrainResult result = train(alone(), folder / "run", {});
  const auto values = test::event_values(folder / "run/tensorboard");
  const auto find = [&](const char* key) {
    return *std::find_if(values.begin(), values.end(), [&](const Json& value) { return value.contains(key); });
  };
  EXPECT_EQ(find("start")["start"]["optimizer.lr"], 0.01);
  EXPECT_EQ(find("start")["start"]["exact"], true);
  EXPECT_EQ(find("start")["group"], "run");
  EXPECT_EQ(find("metrics")["metrics"], Json::parse(R"(["Test/error"])"));
  EXPECT_EQ(find("end")["end"], 1);
  std::optional<float> last;
  for (const Json& value : values) {
    if (value.value("tag", "") == "Test/error") last = value["scalar"].get<float>();
  }
  EXPECT_EQ(last, static_cast<float>(result.metrics.front().value));
}

TEST(TensorBoard, ShowsEachStepOnceAfterARunThatRepeatsSteps) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  (void)train(alone(), run, {.steps = 5});
  for (const char* step : {"step-00000004", "step-00000005"}) fs::remove_all(run / "checkpoints" / step);
  (void)train(alone(), run, {.steps = 6, .resume = "auto"});
  EXPECT_EQ(event_files_in(run / "tensorboard"), 2U);
  EXPECT_THAT(steps_of(test::event_values(run / "tensorboard", ""), "Loss/total"), ElementsAre(1, 2, 3, 4, 5, 4, 5, 6));
  EXPECT_THAT(steps_of(test::event_values(run / "tensorboard"), "Loss/total"), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(TensorBoard, InAFolderOfItsOwnHasTheRunsUnderTheirNames) {
  const test::TempDir folder;
  (void)train(alone(), folder / "first", {.steps = 1, .tensorboard = (folder / "log").string()});
  EXPECT_EQ(event_files_in(folder / "log" / "first"), 1U);
  EXPECT_FALSE(fs::exists(folder / "first/tensorboard"));
}

TEST(TensorBoard, ThatIsNotWantedWritesNothing) {
  const test::TempDir folder;
  (void)train(alone(), folder / "run", {.steps = 1, .tensorboard = "none"});
  EXPECT_FALSE(fs::exists(folder / "run/tensorboard"));
}

TEST(TensorBoard, MayBeChosenAnewWhenARunResumes) {
  const test::TempDir folder;
  (void)train(alone(), folder / "run", {.steps = 2, .tensorboard = "none"});
  EXPECT_NO_THROW((void)train(alone(), folder / "run", {.steps = 3, .histograms = 1, .resume = "auto"}));
  EXPECT_THAT(steps_of(test::event_values(folder / "run/tensorboard"), "Loss/total"), ElementsAre(3));
}

TEST(TensorBoard, HasHistogramsOfWeightsAndReducedGradientsOnRequest) {
  const test::TempDir folder;
  run_ranks(current_test(),
            [](Job& job) {
              struct Extremes final : RunSink {
                void on_gradients(const StepGradients& event) override {
                  const at::Tensor grad = event.model.named_parameters()["first.weight"].grad();
                  least.push_back(grad.min().item<double>());
                  steps.push_back(event.step);
                }
                std::vector<double> least;
                std::vector<std::int64_t> steps;
              };
              const auto sink = std::make_shared<Extremes>();
              const fs::path run = std::getenv("LOCKSTEP_TEST_RUN");
              (void)train(job, run, {.histograms = 2, .sinks = {sink}});
              EXPECT_THAT(sink->steps, ElementsAre(2, 4));
              if (!job.is_main()) return;
              EXPECT_EQ(event_files_in(run / "tensorboard"), 1U);
              std::vector<double> least;
              for (const Json& value : test::event_values(run / "tensorboard")) {
                if (value.value("tag", "") == "Weights/first.weight") {
                  EXPECT_EQ(value["histogram"]["count"], 32);
                }
                if (value.value("tag", "") == "Gradients/first.weight") least.push_back(value["histogram"]["min"]);
              }
              EXPECT_EQ(least, sink->least);
            },
            {.world = 2, .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}}});
}

TEST(TensorBoard, OnADiskThatRefusesEndsTheRunWithAnIoError) {
  const test::TempDir folder;
  std::ofstream(folder / "file") << "no folder";
  EXPECT_THROW((void)train(alone(), folder / "run", {.tensorboard = (folder / "file").string()}), IoError);
}

TEST(TensorBoardFolder, IsThatOfTheRunUnlessAnotherIsGiven) {
  EXPECT_EQ(train::tensorboard_folder("auto", "runs/a"), fs::path("runs/a/tensorboard"));
  EXPECT_EQ(train::tensorboard_folder("./log", "runs/a/"), fs::path("./log/a"));
  EXPECT_EQ(train::tensorboard_folder("none", "runs/a"), std::nullopt);
}

/// A port that was free a moment ago.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

std::string fetched(const std::string& url) {
  return testing::run_shell("python3 -c \"import urllib.request as r; print(r.urlopen(\\\"" + url +
                            "\\\", timeout=20).read().decode())\"")
      .text;
}

TEST(MetricsPage, AnswersWhileTheRunGoesOn) {
  const test::TempDir folder;
  const int port = free_port();
  const std::string url = "http://127.0.0.1:" + std::to_string(port) + "/metrics";
  std::string page;
  double loss = 0;
  const auto sink = run_callbacks({.on_step = [&](const StepResult& event) {
    if (event.step != 4) return;
    loss = *event.loss;
    page = fetched(url);
  }});
  (void)train(alone(), folder / "run", {.steps = 5, .metrics_address = std::to_string(port), .sinks = {sink}});
  EXPECT_THAT(page, AllOf(HasSubstr("lockstep_step{recipe=\"noisy\",run=\"run\"} 4\n"),
                          HasSubstr("lockstep_epoch{recipe=\"noisy\",run=\"run\"} 2\n"),
                          HasSubstr(fmt::format("lockstep_loss{{recipe=\"noisy\",run=\"run\"}} {}\n", loss)),
                          HasSubstr("lockstep_metric{recipe=\"noisy\",run=\"run\",name=\"error\"} "),
                          HasSubstr("lockstep_memory_peak_bytes{"), HasSubstr("lockstep_restarts{")));
  EXPECT_THAT(fetched(url), HasSubstr("refused"));  // the run is over
}

TEST(MetricsServer, TakesNoPortThatAnotherHas) {
  const train::MetricsServer first({}, [] { return "page"; });
  const std::string url = first.url();
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  EXPECT_THROW(train::MetricsServer({.port = port}, [] { return "other"; }), UsageError);
  EXPECT_EQ(fetched(url), "page\n");
}

class SetClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  void pass(std::chrono::seconds time) { now_ += time; }

 private:
  TimePoint now_ = {};
};

/// A rank of the previous group, stuck in the kernel, still holds the port.
TEST(MetricsSink, OfAGroupThatWasStartedAgainTakesItsPortWhenThatIsFree) {
  std::optional<train::MetricsServer> before(std::in_place, train::ServerAddress{}, [] { return "page"; });
  const std::string url = before->url();
  const std::string port = url.substr(url.rfind(':') + 1, url.rfind('/') - url.rfind(':') - 1);
  SetClock clock;
  EXPECT_THROW(train::MetricsSink(port, clock).on_start({}), UsageError) << "of another program, at a first start";
  ::setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  train::MetricsSink sink(port, clock);
  EXPECT_NO_THROW(sink.on_start({}));
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  before.reset();
  sink.on_step({.step = 7});
  EXPECT_THAT(fetched(url), HasSubstr("refused")) << "not at every step";
  clock.pass(std::chrono::seconds(5));
  sink.on_step({.step = 8});
  EXPECT_THAT(fetched(url), HasSubstr("lockstep_step{"));
}

TEST(MetricsServer, AnswersThoughAClientSaysNothing) {
  const train::MetricsServer server({}, [] { return "page"; });
  const std::string url = server.url();
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  ASSERT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(fetched(url), "page\n");
  ::close(socket);
}

std::string address_of(const std::string& text) {
  try {
    const train::ServerAddress address = train::parse_address(text);
    return fmt::format("{} {}", address.host, address.port);
  } catch (const UsageError&) {
    return "error";
  }
}

TEST(MetricsAddress, IsAPortOfLoopbackOrHostAndPort) {
  EXPECT_EQ(address_of("9100"), "127.0.0.1 9100");
  EXPECT_EQ(address_of("0.0.0.0:9100"), "0.0.0.0 9100");
  EXPECT_EQ(address_of("[::1]:9100"), "::1 9100");
  for (const char* wrong : {"", "x", "70000", ":9100", "::1:9100", "host:", "-1", "91 00"}) {
    EXPECT_EQ(address_of(wrong), "error") << wrong;
  }
  TrainConfig config = test::noisy_config();
  config.metrics_address = "x";
  EXPECT_THROW(config.validate(), UsageError);
}

}  // namespace curves_test

namespace profile_run_test {

using ::lockstep::test::digest_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::is_nested;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// A profiled run of the Trainer: the same result, and a trace of every rank.

void train(const Job& job, const std::filesystem::path& run_dir, std::int64_t profile) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  Trainer(job, task, config, {.recipe = "noisy", .run_dir = run_dir, .profile = profile}).fit();
}

std::set<std::string> names_in(const std::string& trace) {
  std::set<std::string> names;
  const auto json = nlohmann::json::parse(trace);
  for (const auto& event : json.at("traceEvents")) names.insert(event.at("name"));
  return names;
}

TEST(ProfiledRun, HasTheDigestOfOneThatIsNot) {
  const TempDir folder;
  train(alone(), folder / "plain", 0);
  train(alone(), folder / "profiled", 4);
  EXPECT_EQ(digest_of(folder / "profiled"), digest_of(folder / "plain"));
}

TEST(ProfiledRun, OnTwoRanksGivesOneTraceOfBoth) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, 3); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  const view::MergedTrace merged = view::merge_traces(FileSystem::system(), shared);
  EXPECT_EQ(merged.ranks, 2);
  EXPECT_EQ(merged.hosts, 1);
  EXPECT_TRUE(is_nested(nlohmann::json::parse(merged.text).at("traceEvents")));
  EXPECT_THAT(names_in(merged.text),
              IsSupersetOf({"forward", "loss", "backward", "optimizer", "DataLoader::next", "lockstep::prepare_batch",
                            "lockstep::optimizer_step", "first AddmmBackward0"}));
}

}  // namespace profile_run_test
}  // namespace lockstep
