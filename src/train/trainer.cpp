// SPDX-License-Identifier: Apache-2.0
// Runs the set-up, the training loop and the end of a run, and reports failures. The set-up is in setup/, the loop in
// loop/, output in report/ (docs/design/run.md).
#include "lockstep/train/trainer.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/comm/objects.h"
#include "lockstep/observe/profiler.h"
#include "lockstep/view/banner.h"
#include "train/loop/epoch_loop.h"
#include "train/loop/requeue.h"
#include "train/loop/rescue.h"
#include "train/plan/decisions.h"
#include "train/plan/stages.h"
#include "train/plan/stop.h"
#include "train/ranks/same_outcome.h"
#include "train/report/console_sink.h"
#include "train/report/digest_sink.h"
#include "train/report/folder_sink.h"
#include "train/report/metrics_sink.h"
#include "train/report/run_sinks.h"
#include "train/report/save_counter.h"
#include "train/report/tensorboard_sink.h"
#include "train/resume/start.h"
#include "train/setup/run_setup.h"
#include "train/step/loss_meter.h"
#include "train/step/not_finite.h"
#include "train/step/out_of_memory.h"

namespace lockstep {

using train::StopReason;

class Trainer::Impl {
 public:
  Impl(Job job, Task& task, TrainConfig& config, TrainerOptions options)
      : job_(std::move(job)),
        task_(task),
        config_(config),
        options_(std::move(options)),
        wish_(SystemClock::instance(), options_.max_time),
        trouble_(!options_.rescue.empty()) {}

  TrainResult fit();

 private:
  TrainResult run();
  [[nodiscard]] bool find_complete();
  [[nodiscard]] std::vector<std::shared_ptr<RunSink>> own_sinks();
  [[nodiscard]] RunStart start_event() const;
  [[nodiscard]] observe::ProfilerOptions profiler_options();
  void leave(RunEnd end);
  void finish(RunEnd end);
  [[nodiscard]] ResourceError out_of_memory(const std::exception& error) const;
  [[nodiscard]] std::string bad_loss_text(const train::NonFiniteLoss& fault);
  [[nodiscard]] std::string keep_bad_batches(const DataError& fault, std::int64_t step);
  void put_aside_after(std::int64_t proved);
  [[nodiscard]] std::int64_t computed_step() const { return loop_ ? loop_->computed_step() : 0; }

  Job job_;
  Task& task_;
  TrainConfig& config_;
  TrainerOptions options_;
  train::StopWish wish_;
  train::DiskTrouble trouble_;
  train::ReadyRun run_;
  std::optional<observe::Profiler> profiler_;
  std::optional<train::RunSinks> sinks_;
  std::optional<train::StepReporter> reporter_;
  std::optional<train::EpochLoop> loop_;
  TrainResult result_;
};

TrainResult Trainer::Impl::fit() {
  const ProgramWords words(!options_.has_options && !options_.has_commands);
  try {
    return run();
  } catch (const train::NonFiniteLoss& fault) {
    throw DataError(fault.message() + bad_loss_text(fault), keep_bad_batches(fault, fault.step()));
  } catch (const train::Miscomputed& fault) {
    put_aside_after(fault.proved());
    throw CorruptionError(fault.message(), fault.hint(), fault.rank());
  } catch (const DataError& fault) {
    throw DataError(fault.message(), keep_bad_batches(fault, computed_step()));
  } catch (const std::exception& error) {
    if (!train::is_out_of_memory(error)) throw;
    throw out_of_memory(error);
  }
}

TrainResult Trainer::Impl::run() {
  try {
    train::set_up_run({.job = job_, .task = task_, .config = config_, .options = options_}, run_);
  } catch (const train::TooManyRanks&) {
    result_.stopped_by = "replicas";
    return result_;
  }
  if (options_.profile > 0) profiler_.emplace(job_, profiler_options());
  sinks_.emplace(train::SinkOwners{.job = job_, .trouble = trouble_}, own_sinks(), options_.sinks);
  reporter_.emplace(job_, run_.learner->steps(), config_);
  loop_.emplace(train::LoopParts{.job = job_,
                                 .task = task_,
                                 .run = run_,
                                 .sinks = *sinks_,
                                 .wish = wish_,
                                 .trouble = trouble_,
                                 .reporter = *reporter_,
                                 .profiler = profiler_ ? &*profiler_ : nullptr,
                                 .watch = options_.watch.get(),
                                 .until_step = options_.until_step});
  const bool was_complete = find_complete();
  sinks_->start(start_event());
  loop_->run();
  train::rescue_run(job_, run_, trouble_, options_.rescue);
  // If the run was already complete, a program still gets its metrics, but the command has nothing more to print.
  const bool said = was_complete && options_.has_commands;
  const bool cut_short = train::is_cut_short(options_.until_step, run_.state);
  if (loop_->complete() && !cut_short && !said) loop_->evaluations().make_up();
  result_ = loop_->result();
  result_.checkpoint = run_.saver->last_path();
  const RunEnd end{.result = result_,
                   .world_size = job_.world_size(),
                   .total_steps = train::last_step(config_, run_.plan->sums, run_.state),
                   .step_report = reporter_->whole()};
  if (loop_->stopped_by() != StopReason::kNone) {
    leave(end);
  } else if (cut_short) {
    result_.stopped_by = "until_step";
  } else if (was_complete) {
    if (job_.is_main()) log::note("the run is complete: there is nothing left to do after step {}", run_.state.step);
  } else {
    finish(end);
  }
  job_.barrier();
  return result_;
}

/// Returns true if the run ended before this start: it has all its steps and a summary. The summary of a run that goes
/// on is removed; otherwise, if this run were killed before it writes its own, the next start would find the old one.
/// Collective: yes.
bool Trainer::Impl::find_complete() {
  bool has_summary = false;
  if (run_.folder) {
    const std::filesystem::path summary = run_.folder->path() / "summary.json";
    has_summary = FileSystem::system().exists(summary);
    if (has_summary && !loop_->complete()) FileSystem::system().remove(summary);
  }
  return loop_->complete() && broadcast_object(job_.group(), has_summary, 0);
}

/// Returns the Trainer's own sinks, on rank 0: console, run folder and others.
std::vector<std::shared_ptr<RunSink>> Trainer::Impl::own_sinks() {
  std::vector<std::shared_ptr<RunSink>> own;
  if (run_.folder) {
    const bool repeats_epoch = run_.state.batch == run_.plan->sums.batches_per_epoch;
    own.push_back(std::make_shared<train::LogSink>(*run_.folder, config_.log_every_steps, repeats_epoch));
    own.push_back(std::make_shared<train::FolderSink>(*run_.folder));
    own.push_back(std::make_shared<train::ConsoleSink>(config_, options_));
    if (const auto folder = train::tensorboard_folder(config_.tensorboard, run_.folder->path())) {
      own.push_back(std::make_shared<train::TensorBoardSink>(*folder, config_));
    }
    if (!config_.metrics_address.empty()) own.push_back(std::make_shared<train::MetricsSink>(config_.metrics_address));
    if (run_.learner->steps().weights().digest()) {
      own.push_back(std::make_shared<train::DigestSink>(*run_.folder, run_.state.digest_fold));
    }
    if (train::has_launcher()) own.push_back(std::make_shared<train::SaveCounter>(job_));
  }
  return own;
}

observe::ProfilerOptions Trainer::Impl::profiler_options() {
  return {.steps = options_.profile,
          .folder = run_.run_dir / "trace",
          .parameters = named_parameters_of(run_.learner->steps().model().module().net()),
          .type = config_.amp == "bf16" ? at::kBFloat16 : at::kFloat};
}

RunStart Trainer::Impl::start_event() const {
  const train::RunPlan& plan = *run_.plan;
  return {.rank = job_.rank(),
          .world_size = job_.world_size(),
          .recipe = plan.recipe,
          .run_dir = plan.run_dir,
          .settings = plan.settings,
          .step = run_.state.step,
          .folder_has_run = plan.folder_has_run,
          .epochs = train::last_epoch(config_, run_.state.stages),
          .total_steps = train::last_step(config_, plan.sums, run_.state),
          .steps_per_epoch = plan.sums.steps_per_epoch,
          .total_batch = plan.sums.total_batch,
          .banner = job_.is_main() ? view::banner(run_.banner) : ""};
}

/// Ends a run early, after it was saved. All ranks must know whether the job is requeued, which determines the exit
/// code.
void Trainer::Impl::leave(RunEnd end) {
  const StopReason reason = loop_->stopped_by();
  result_.stopped_by = train::stop_name(reason);
  end.result = result_;
  sinks_->end(std::move(end), [](RunEnd&) {});
  const auto job = train::slurm_job();
  train::do_on_main(job_, [&] {
    if (job && train::asks_for_requeue(reason)) result_.requeued = train::requeue(*job);
  });
  result_.requeued = broadcast_object(job_.group(), result_.requeued, 0);
}

void Trainer::Impl::finish(RunEnd end) {
  sinks_->end(std::move(end), [this](RunEnd& event) {
    const Evaluation& evaluation = loop_->evaluations().last();
    event.report = report_of(task_, evaluation);
    event.pictures = train::draw_pictures(run_.run_dir, evaluation.tally.get());
  });
}

/// Returns this rank's error, which reaches the other ranks the way any error does.
ResourceError Trainer::Impl::out_of_memory(const std::exception& error) const {
  return train::out_of_memory_error(
      {.when = loop_ ? loop_->position_text() : "setup",
       .cause = error.what(),
       .setting_up = !loop_,
       .batch_size = config_.batch_size.is_auto() ? 0 : config_.batch_size.value(),
       .accumulate_steps = config_.accumulate_steps,
       .use = memory_use(job_.device()),
       .largest = run_.learner ? run_.learner->steps().memory_holders() : std::vector<train::Holder>{}});
}

/// Every rank has this error, so the ranks can exchange the losses and samples that caused it.
std::string Trainer::Impl::bad_loss_text(const train::NonFiniteLoss& fault) {
  const train::TakenBatches& taken = run_.learner->steps().taken();
  const std::int64_t ago = computed_step() - fault.step();
  const std::string ranks = train::ranks_with_bad_loss(all_gather_object(job_.group(), taken.bad_replicas(ago)));
  std::string own;
  try {
    own = train::some_samples(taken.bad_samples(ago));
  } catch (const std::exception& error) {
    log::warn("the samples of step {} could not be named: {}", fault.step(), error.what());
  }
  std::string text = ranks.empty() || job_.world_size() == 1 ? "" : " " + ranks;
  for (const std::string& samples : all_gather_object(job_.group(), own)) {
    if (!samples.empty()) return text + "; its batch: " + samples;
  }
  return text;
}

/// Saves the bad batches of this rank's replicas, for inspection. Returns: the error's hint, which names the folder.
std::string Trainer::Impl::keep_bad_batches(const DataError& fault, std::int64_t step) {
  std::string hint = fault.hint();
  if (!run_.learner || run_.run_dir.empty()) return hint;
  try {
    const auto folder = run_.run_dir / "bad_batches";
    for (const auto& file : run_.learner->steps().taken().keep_bad(step, computed_step() - step, folder)) {
      hint += fmt::format("{}its batch is kept in {}", hint.empty() ? "" : "; ", file.string());
    }
  } catch (const std::exception& error) {
    log::warn("the batch of step {} could not be kept: {}", step, error.what());
  }
  return hint;
}

/// Drops an unfinished save, which is not verified, and sets aside the checkpoints after step `proved`.
void Trainer::Impl::put_aside_after(std::int64_t proved) {
  run_.saver.reset();
  if (run_.folder) put_checkpoints_aside(FileSystem::system(), run_.folder->checkpoints(), proved);
}

Trainer::Trainer(Job job, Task& task, TrainConfig& config, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(job), task, config, std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::fit() {
  TrainResult result = impl_->fit();
  fault::note_step(-1);  // from here on, errors do not concern a step
  return result;
}

}  // namespace lockstep
