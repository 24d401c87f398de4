// SPDX-License-Identifier: Apache-2.0
#include "worker/explain/replay.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "common/temporary_folder.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/platform.h"
#include "lockstep/train/first_weights.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/trainer.h"
#include "worker/recipes.h"
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

/// Turns off what a replay does not need. An evaluation changes a run only if the schedule depends on it.
void leave_out_the_rest(TrainConfig& config) {
  config.tensorboard = "none";
  config.tensorboard_histograms = 0;
  config.metrics_address.clear();
  config.log_every_steps = 1;
  config.digests = "true";
  const bool listens =
      config.schedule.type == "plateau" || config.stages.stop_epoch > 0 || !config.stop_at.metric.empty();
  if (listens) return;
  config.data.test.clear();
  config.checkpoint.every_steps = 0;
}

/// Stops a replay after its first steps if they show that it would take too long.
class Patience {
 public:
  Patience(std::int64_t from, const ReplayRequest& request) : from_(from), request_(request) {}

  void look(std::int64_t step) {
    constexpr std::int64_t kMeasured = 5;
    const TimePoint now = SystemClock::instance().now();
    if (step == from_ + 1) begin_ = now;
    if (step != from_ + 1 + kMeasured || request_.may_be_long) return;
    const double each = Seconds(now - begin_).count() / static_cast<double>(kMeasured);
    const double left = each * static_cast<double>(request_.step - step);
    if (left < kLongReplay) return;
    throw UsageError(fmt::format("nearest checkpoint of {}: {}; {} steps must be replayed, which takes about {}",
                                 request_.run, from_ == 0 ? "none" : fmt::format("step {}", text::thousands(from_)),
                                 text::thousands(request_.step - from_), text::duration(left)),
                     "pass --yes to replay anyway; to keep more checkpoints in a run, set checkpoint.every_steps and "
                     "checkpoint.keep_last");
  }

 private:
  std::int64_t from_;
  const ReplayRequest& request_;
  TimePoint begin_;
};

/// Warns if the platform differs. A resumed replay is compared with its checkpoint, a replay from the first step with
/// the run's newest checkpoint.
void warn_of_another_platform(const fs::path& run) {
  const auto newest = find_newest_valid(FileSystem::system(), run / "checkpoints");
  const std::string difference = newest ? platform_difference(load_checkpoint(newest->string()).manifest()) : "";
  if (!difference.empty()) log::warn("{} was {}: the replay may not be bitwise equal", newest->string(), difference);
}

/// True if `weights` is a path, or FILE:STATE for a file, that exists.
bool is_there(const std::string& weights) {
  FileSystem& files = FileSystem::system();
  return files.exists(weights) || files.exists(weights.substr(0, weights.rfind(':')));
}

/// The weights that a run started from; without a path it started from random weights. Throws: DataError if they are
/// gone.
FirstWeights first_weights_of(const fs::path& run) {
  const fs::path file = run / kFirstWeightsFile;
  if (!FileSystem::system().exists(file)) return {};
  const nlohmann::json said = read_json_file(FileSystem::system(), file);
  const auto path = said.find("path");
  if (path == said.end() || !path->is_string()) {
    throw DataError(fmt::format("{} names no weights", file.string()), "replay a step after a checkpoint of the run");
  }
  const std::string weights = path->get<std::string>();
  if (!is_there(weights)) {
    throw DataError(fmt::format("run {} started from the weights of {}, which is gone", run.string(), weights),
                    "restore it, or replay a step after a checkpoint of the run");
  }
  const auto partial = said.find("partial");
  return {.path = weights, .may_be_partial = partial != said.end() && *partial == nlohmann::json(true)};
}

/// Keeps the metrics from the recorded step's event.
class StepOfRun final : public RunSink {
 public:
  explicit StepOfRun(std::int64_t step) : step_(step) {}
  void on_step(const StepResult& event) override {
    if (event.step == step_) seen_ = event;
  }
  [[nodiscard]] const std::optional<StepResult>& seen() const { return seen_; }

 private:
  std::int64_t step_;
  std::optional<StepResult> seen_;
};

}  // namespace

fs::path settings_of_run(const fs::path& run) {
  for (const bool experiment : {true, false}) {
    const fs::path file = run / RunFolder::settings_file(experiment);
    if (FileSystem::system().exists(file)) return file;
  }
  throw DataError(fmt::format("{} is not a run folder: it has no config.yml", run.string()));
}

bool has_digest(const StepRecord& record, const view::DigestRecord& own) {
  return record.digest && record.digest->loss == own.loss && record.digest->gradients == own.gradients &&
         record.digest->weights == own.weights;
}

Replay replay_step(const ReplayRequest& request) {
  Settings settings(settings_of_run(request.run).string(), request.sets);
  leave_out_the_rest(settings.config());
  const auto from = find_newest_finite(FileSystem::system(), fs::path(request.run) / "checkpoints", request.step);
  const std::int64_t from_step = from ? load_checkpoint(from->string()).step() : 0;
  const FirstWeights first = from ? FirstWeights{} : first_weights_of(request.run);
  if (!from) warn_of_another_platform(request.run);
  const apps::TemporaryFolder scratch("lockstep-replay");
  Replay replay;
  replay.checkpoint = from ? from->string() : "";
  JoinArguments join;
  join.device = request.device;
  join.keeps_notes = true;
  const auto task = settings.recipe().make_task(settings.config());
  (void)with_job(join, [&](Job& job) {
    const log::QuietNotes others(true);
    settings.recipe().settle(*task, settings.config());
    Patience patience(from_step, request);
    const auto recorder =
        std::make_shared<StepRecorder>(*task, settings.config(),
                                       RecorderOptions{.group = &job.group(),
                                                       .step = request.step,
                                                       .operators = request.operators,
                                                       .single_losses = request.single_losses,
                                                       .on_step = [&](std::int64_t step) { patience.look(step); }});
    const auto step = std::make_shared<StepOfRun>(request.step);
    try {
      Trainer(job, *task, settings.config(),
              {.recipe = settings.recipe().name(),
               .run_dir = fs::path(scratch.path()) / "run",
               .resume = from ? from->string() : "none",
               .init_from = first.path,
               .init_from_partial = first.may_be_partial,
               .has_options = true,
               .sinks = {step},
               .until_step = request.step,
               .watch = recorder,
               .has_commands = true})
          .fit();
    } catch (const DataError& error) {
      if (!recorder->has_step()) throw;
      replay.failure = error.message();
    }
    if (!recorder->has_step()) {
      throw DataError(fmt::format("run {} has no step {}", request.run, text::thousands(request.step)));
    }
    replay.record = recorder->record();
    replay.norms = recorder->norms();
    replay.pictures = recorder->pictures();
    replay.record.from_step = from_step;
    replay.record.platform = checkpoint::platform();
    replay.record.loss = std::numeric_limits<double>::quiet_NaN();
    if (const auto& seen = step->seen()) {
      replay.record.lr = seen->lr;
      replay.record.digest = seen->digest;
      replay.record.loss = seen->loss.value_or(replay.record.loss);
      for (const auto& [name, value] : seen->terms) replay.loss_names.push_back(name);
    }
    return 0;
  });
  return replay;
}

}  // namespace lockstep::worker
