// SPDX-License-Identifier: Apache-2.0
// The order of things in a run. Where it starts stands in start.cpp, a step in step_runner.cpp, what is said and
// written in reporter.cpp, the sums before it in plan.cpp.
#include "lockstep/train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/objects.h"
#include "lockstep/optim/ema.h"
#include "lockstep/tensor/device_memory.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/prepare.h"
#include "train/auto_batch.h"
#include "train/configuration.h"
#include "train/course.h"
#include "train/init_from.h"
#include "train/loss_meter.h"
#include "train/loss_scale.h"
#include "train/metric_check.h"
#include "train/out_of_memory.h"
#include "train/plan.h"
#include "train/precision.h"
#include "train/program_words.h"
#include "train/reporter.h"
#include "train/requeue.h"
#include "train/run_banner.h"
#include "train/run_saver.h"
#include "train/run_state.h"
#include "train/same_outcome.h"
#include "train/schedule_choice.h"
#include "train/share_state.h"
#include "train/stage_base.h"
#include "train/stages.h"
#include "train/start.h"
#include "train/step_runner.h"
#include "train/stop.h"

namespace lockstep {
namespace {

using train::Plan;
using train::Reporter;
using train::RunState;
using train::StepReport;
using train::StopReason;

}  // namespace

class Trainer::Impl {
 public:
  Impl(Job job, Task& task, TrainConfig& config, TrainerOptions options)
      : job_(std::move(job)),
        task_(task),
        config_(config),
        options_(std::move(options)),
        wish_(SystemClock::instance(), options_.max_time) {}

  TrainResult fit();

 private:
  TrainResult fit_or_explain();
  TrainResult run();
  void leave();
  [[nodiscard]] ResourceError out_of_memory(const std::exception& error) const;
  [[nodiscard]] std::string keep_bad_batches(const DataError& fault, std::int64_t step);
  void set_up();
  void load_data();
  void find_batch_size();
  void build();
  void load_scaler();
  void begin_average();
  void build_ema();
  void build_saver();
  void update_ema();
  [[nodiscard]] view::BannerInfo banner();
  void begin_stage(std::int64_t epoch);
  void train_epoch(std::int64_t epoch);
  void train_step(std::int64_t epoch);
  void note_skipped();
  void report(const std::optional<train::LossReading>& reading);
  void end_epoch(std::int64_t epoch, double seconds, std::int64_t images);
  void note_bad_samples();  // of all ranks, since the run began; collective
  void report_end(bool was_complete);
  void evaluate_test_set();
  std::vector<std::string> note_best(bool counts);
  void save(const std::vector<std::string>& names, bool may_skip = false);
  void make_room_to_save();
  [[nodiscard]] StateDict run_entries();
  [[nodiscard]] StateParts state_parts();
  [[nodiscard]] std::filesystem::path checkpoints_folder() {
    return reporter_ ? reporter_->folder().checkpoints() : std::filesystem::path();
  }
  [[nodiscard]] bool is_due() const {
    return config_.checkpoint.every_steps > 0 && run_.step % config_.checkpoint.every_steps == 0;
  }
  [[nodiscard]] bool complete() const {
    return run_.step >= train::last_step(config_, plan_, run_) || result_.reached_target;
  }
  [[nodiscard]] bool finished() const { return complete() || stopped(); }
  [[nodiscard]] bool stopped() const { return stop_ != StopReason::kNone && !complete(); }  // before its end

  Job job_;
  Task& task_;
  TrainConfig& config_;
  TrainerOptions options_;
  std::optional<Reporter> reporter_;  // the main rank's
  train::Start start_;
  RunState run_;
  std::shared_ptr<Dataset> train_set_;
  std::shared_ptr<Dataset> test_set_;
  std::optional<train::StepRunner> steps_;
  std::optional<EMA> ema_;
  std::optional<train::LossMeter> loss_;
  std::unique_ptr<train::RunSaver> saver_;
  std::optional<StepReport> unreported_;  // a step whose loss is still being combined
  Plan plan_;
  TrainResult result_;
  Evaluation evaluation_;  ///< the last one
  train::StopWish wish_;
  StopReason stop_ = StopReason::kNone;  ///< all ranks know it
  bool said_skipped_ = false;
  bool made_room_ = false;
  std::int64_t computed_step_ = 0;  ///< of the last gradients
  std::int64_t asked_step_ = -1;    ///< at which save() was called last
  bool found_batch_ = false;        // batch_size was auto
  bool evaluating_ = false;
  std::int64_t images_ = 0;  // trained on, over all replicas
};

void Trainer::Impl::set_up() {
  config_.validate();
  train::require_one_start(options_);
  train::require_amp(config_, job_.device());
  train::use_tf32(config_);
  keep_freed_memory();
  start_ = train::agree_on_start(job_, config_, options_, reporter_);
  run_ = start_.run;
  result_.reached_target = train::has_reached(config_.stop_at, run_.best);
  train::require_measurable(config_, job_.device());
  at::set_num_threads(static_cast<int>(config_.threads));
  steps_.emplace(job_, task_, config_);
  load_data();
  build();
  train::require_metrics(job_, task_, config_, test_set_, steps_->model().module().net());
}

void Trainer::Impl::load_data() {
  {
    const log::QuietNotes others(!job_.is_main());  // all see the same files
    fault::in_section("make_dataset", [&] {
      train_set_ = task_.make_training_set(config_.data.train);
      if (!config_.data.test.empty()) test_set_ = task_.make_dataset(config_.data.test);
    });
  }
  if (start_.resumed && run_.samples != train_set_->size()) {
    throw UsageError(fmt::format("data.train has {} samples and had {} when the checkpoint was written",
                                 train_set_->size(), run_.samples),
                     "go on with the same samples, or take only the weights: --init-from instead of --resume");
  }
  run_.samples = train_set_->size();
  if (config_.batch_size.is_auto()) find_batch_size();
  steps_->load(train_set_);
  plan_ = train::make_plan(config_, steps_->batches_per_epoch(), config_.replicas);
  if (config_.schedule.type == "plateau" && !run_.plateau) run_.plateau = PlateauState{.lr = plan_.lr};
  if (plan_.total_steps > 0) return;
  throw UsageError(fmt::format("{} samples make no full batch of {} on each of {} replicas", train_set_->size(),
                               config_.batch_size.value(), config_.replicas),
                   "a smaller batch_size, or drop_last=false");
}

/// From here on the settings hold the number: a run that goes on has to have it.
void Trainer::Impl::find_batch_size() {
  if (job_.is_main()) log::note("batch_size is auto: looking for the largest that fits into memory");
  const auto make_net = [this] { return steps_->make_net(); };
  config_.batch_size = train::find_batch_size(
      {.job = job_, .task = task_, .config = config_, .dataset = train_set_, .make_net = make_net});
  start_.settings = train::settings_text(options_.recipe, config_);
  found_batch_ = true;
}

void Trainer::Impl::build() {
  auto net = steps_->make_net();
  const std::optional<Checkpoint>& checkpoint = start_.checkpoint;
  if (checkpoint) {
    task_.check_model_state(checkpoint->state("model"));
    load_model_state_dict(net->net(), checkpoint->state("model"));
  } else if (!options_.init_from.empty() && job_.is_main()) {
    NamedTensors model = named_parameters_of(net->net());
    for (auto& buffer : named_buffers_of(net->net())) model.push_back(std::move(buffer));
    train::start_from_weights(task_, model, options_.init_from);
  }
  steps_->build(net);
  if (start_.resumed) {
    const StateDict mine = checkpoint ? checkpoint->state("optimizer") : StateDict{};
    steps_->optimizer().load_state_dict(train::share_state(mine, job_.group()));
    load_scaler();
  }
  build_ema();
  loss_.emplace(job_.group(), steps_->block(), static_cast<int>(config_.replicas));
  loss_->start_mean(run_.loss_sum, run_.loss_count);
  build_saver();
}

void Trainer::Impl::build_saver() {
  saver_ = std::make_unique<train::RunSaver>(job_, config_.checkpoint, checkpoints_folder());
  if (start_.saved_here) saver_->start_at(run_.step, start_.checkpoint ? start_.checkpoint->path() : "");
}

void Trainer::Impl::load_scaler() {
  if (!steps_->scaler().is_enabled()) return;
  const StateDict mine = start_.checkpoint ? start_.checkpoint->state("scaler") : StateDict{};
  steps_->scaler().load_state_dict(train::share_state(mine, job_.group()));
}

/// With the weights that the next step finds, the same on every rank.
void Trainer::Impl::begin_average() {
  steps_->sync_buffers();
  ema_.emplace(steps_->model().module().net(), EMAOptions{.decay = config_.ema.decay, .warmups = config_.ema.warmups});
}

void Trainer::Impl::build_ema() {
  if (config_.ema.decay <= 0) return;
  begin_average();
  if (!start_.resumed) return;
  if (run_.stages.stage == 2) ema_->set_decay(run_.stages.decay);
  const bool has_average = start_.checkpoint && start_.checkpoint->has("ema");
  const StateDict average =
      train::share_state(has_average ? start_.checkpoint->state("ema") : StateDict{}, job_.group());
  if (!average.empty()) return ema_->load_state_dict(average);
  if (job_.is_main()) log::note("the checkpoint holds no moving average: it begins with the model's weights");
}

/// Of replica 0's buffers on every rank, so that all have the same average.
void Trainer::Impl::update_ema() {
  if (!ema_) return;
  steps_->sync_buffers();
  ema_->update();
}

view::BannerInfo Trainer::Impl::banner() {
  return train::run_banner({.job = job_,
                            .config = config_,
                            .recipe = options_.recipe,
                            .model = task_.model_name(),
                            .steps = *steps_,
                            .plan = plan_,
                            .train_samples = train_set_->size(),
                            .test_samples = test_set_ ? test_set_->size() : 0,
                            .run_folder = reporter_ ? reporter_->folder().path() : std::filesystem::path(),
                            .found_batch = found_batch_,
                            .averaged = ema_.has_value(),
                            .start = start_});
}

void Trainer::Impl::report(const std::optional<train::LossReading>& reading) {
  if (reading && reading->stop != StopReason::kNone) stop_ = reading->stop;
  if (!reading || !unreported_) return;
  if (std::isfinite(reading->loss)) unreported_->loss = reading->loss;
  for (std::size_t i = 0; i < reading->terms.size(); ++i) {
    unreported_->terms.emplace_back(steps_->loss_names().at(i), reading->terms[i]);
  }
  if (reporter_) reporter_->step(*unreported_);
  unreported_.reset();
}

void Trainer::Impl::train_step(std::int64_t epoch) {
  const std::int64_t batches = std::min(config_.accumulate_steps, plan_.batches_per_epoch - run_.batch);
  computed_step_ = run_.step + 1;
  fault::note_step(computed_step_);
  const auto& losses = steps_->compute_gradients(batches);
  loss_->name_terms(steps_->loss_names());
  report(loss_->add(run_.step + 1, losses, wish_.reason()));
  saver_->check();
  const bool stepped = steps_->update(train::learning_rate(config_, plan_, run_));
  ++run_.step;
  if (!std::exchange(made_room_, true)) make_room_to_save();
  if (stepped) {
    update_ema();
  } else {
    note_skipped();
  }
  run_.batch += batches;
  unreported_ = StepReport{.epoch = epoch,
                           .step_in_epoch = (run_.batch + config_.accumulate_steps - 1) / config_.accumulate_steps,
                           .step = run_.step,
                           .images = steps_->images(),
                           .lr = steps_->optimizer().lr(),
                           .loss_scale = steps_->loss_scale(),
                           .skipped = run_.skipped};
}

/// The step that was just done has left the weights as they were.
void Trainer::Impl::note_skipped() {
  loss_->left_out();
  ++run_.skipped;
  ++run_.epoch_skipped;
  const double scale = steps_->scaler().get_scale();
  train::require_useful_scale(scale, run_.step);
  if (!job_.is_main() || said_skipped_) return;
  said_skipped_ = true;
  log::note(
      "step {} was left out: a gradient was not finite with the loss scaled by {:g}; now by {:g}. Further ones "
      "are counted",
      text::thousands(run_.step), *steps_->loss_scale(), scale);
}

/// Before an epoch's first batch: the second stage begins, or goes back to where it began. What decided it is the same
/// on every rank.
void Trainer::Impl::begin_stage(std::int64_t epoch) {
  if (run_.batch > 0) return;
  const train::StageMove move = train::next_move(config_.stages, run_.stages, epoch);
  if (move == train::StageMove::kNone) return;
  saver_->finish();
  if (!train::load_base(job_, checkpoints_folder(), run_.stages.base_step, *steps_, ema_ ? &*ema_ : nullptr))
    begin_average();
  train::make_move(config_.stages, move, epoch, run_.best, run_.stages);
  if (ema_) ema_->set_decay(run_.stages.decay);
  if (reporter_) {
    reporter_->stage({.move = move,
                      .epoch = epoch,
                      .step = run_.step,
                      .stages = run_.stages,
                      .epochs = train::last_epoch(config_, run_.stages),
                      .total_steps = train::last_step(config_, plan_, run_),
                      .averaged = ema_.has_value()});
  }
}

void Trainer::Impl::train_epoch(std::int64_t epoch) {
  begin_stage(epoch);
  fault::in_section("begin_epoch", [&] { task_.begin_epoch({.epoch = epoch, .stage = run_.stages.stage}); });
  const TimePoint begin = SystemClock::instance().now();
  std::int64_t images = 0;
  // A run that was stopped after an epoch's last batch goes on with the epoch's end.
  if (run_.batch < plan_.batches_per_epoch) steps_->start_epoch(epoch, run_.batch);
  while (run_.batch < plan_.batches_per_epoch && !finished()) {
    train_step(epoch);
    images += steps_->images();
    // The epoch's last step is saved after the evaluation, which may change what is saved.
    if (is_due() && run_.batch < plan_.batches_per_epoch && !finished()) save({}, true);
  }
  report(loss_->flush());
  steps_->end_epoch();
  if (stopped()) {
    result_.seconds += Seconds(SystemClock::instance().now() - begin).count();
    images_ += images;
    return save({});
  }
  end_epoch(epoch, Seconds(SystemClock::instance().now() - begin).count(), images);
}

void Trainer::Impl::note_bad_samples() {
  if (config_.bad_samples != "skip") return;
  for (const auto& found : all_gather_object(job_.group(), steps_->bad_samples()))
    run_.bad_samples.insert(found.begin(), found.end());
}

void Trainer::Impl::end_epoch(std::int64_t epoch, double seconds, std::int64_t images) {
  result_.seconds += seconds;
  images_ += images;
  note_bad_samples();
  const train::LoaderReport loading{.wait = steps_->wait_share(seconds), .bad_samples = std::ssize(run_.bad_samples)};
  const bool evaluated = test_set_ && train::is_evaluation_epoch(config_, plan_, run_, epoch);
  if (evaluated) evaluate_test_set();
  if (evaluated) train::do_on_main(job_, [&] { reporter_->results(evaluation_.tally.get(), epoch); });
  // One that there is only because the run ends here does not count: a longer run would not have it.
  const bool whole = run_.batch == plan_.batches_per_epoch;
  const bool counts = evaluated && whole && (epoch + 1) % config_.eval_every_epochs == 0;
  const std::vector<std::string> names = evaluated ? note_best(counts) : std::vector<std::string>{};
  if (counts) train::note_metrics(config_.schedule, result_.metrics, run_.plateau);
  const MemoryUse memory_so_far = train::most_memory_used(job_);
  if (reporter_) {
    reporter_->epoch({.epoch = epoch,
                      .step = run_.step,
                      .seconds = seconds,
                      .images_per_s = seconds > 0 ? static_cast<double>(images) / seconds : 0,
                      .loading = loading,
                      .lr = steps_->optimizer().lr(),
                      .loss = loss_->mean(),
                      .skipped = config_.scales_loss() ? std::optional(run_.epoch_skipped) : std::nullopt,
                      .memory = memory_so_far,
                      .metrics = evaluated ? result_.metrics : std::vector<Metric>{}});
  }
  if (whole) {
    run_.epoch = epoch + 1;
    run_.batch = 0;
    run_.epoch_skipped = 0;
    loss_->start_mean(0, 0);
  }
  if (!names.empty() || is_due() || (whole && train::is_due_after(config_.checkpoint, epoch)) || finished())
    save(names);
}

void Trainer::Impl::evaluate_test_set() {
  steps_->sync_buffers();
  EvaluateOptions options = train::evaluate_options(config_);
  if (reporter_) options.progress = [this](auto done, auto total) { reporter_->evaluating(done, total); };
  evaluating_ = true;
  const Evaluation evaluation = [&] {
    std::optional<EMA::Swapped> averaged;
    if (ema_) averaged.emplace(ema_->swap_in());
    return evaluate(job_, task_, steps_->model().module().net(), test_set_, options);
  }();
  evaluating_ = false;
  result_.metrics = evaluation.metrics;
  evaluation_ = evaluation;
  for (const Metric& metric : evaluation.metrics) {
    if (metric.name == config_.stop_at.metric && train::reaches(metric, config_.stop_at.value))
      result_.reached_target = true;
  }
}

/// By the metric of stop_at, else the task's first. Returns: the names that the step has earned.
std::vector<std::string> Trainer::Impl::note_best(bool counts) {
  for (const Metric& metric : result_.metrics) {
    if (!config_.stop_at.metric.empty() && metric.name != config_.stop_at.metric) continue;
    const bool best = train::is_better(metric, run_.best);
    auto names = train::note_evaluation(config_.stages, run_.stages,
                                        {.metric = metric, .step = run_.step, .best = best, .counts = counts});
    if (best) run_.best = metric;
    if (best) run_.best_step = run_.step;
    return names;
  }
  return {};
}

StateDict Trainer::Impl::run_entries() {
  run_.loss_sum = loss_->sum();
  run_.loss_count = loss_->count();
  StateDict run = train::to_state(run_);
  run["recipe"] = options_.recipe;
  return run;
}

/// What this rank writes of a checkpoint.
StateParts Trainer::Impl::state_parts() {
  const int world = config_.checkpoint.sharded ? job_.world_size() : 1;
  const int rank = config_.checkpoint.sharded ? job_.rank() : 0;
  StateParts parts;
  parts["model"] = part_of(steps_->model().state_dict(), rank, world);
  parts["optimizer"] = world > 1 ? steps_->optimizer().state_part(rank, world)
                                 : StatePart{.entries = steps_->optimizer().state_dict(), .slices = {}};
  parts["run"] = part_of(run_entries(), rank, world);
  if (ema_) parts["ema"] = part_of(ema_->state_dict(), rank, world);
  if (steps_->scaler().is_enabled()) parts["scaler"] = part_of(steps_->scaler().state_dict(), rank, world);
  return parts;
}

/// After the first step, when the optimizer has its state. One that is sharded and gathered at rank 0 has it only then.
void Trainer::Impl::make_room_to_save() {
  const bool gathered = config_.optimizer.zero && !config_.checkpoint.sharded;
  if (config_.checkpoint.every_steps > 0 && saver_->writes() && !gathered) saver_->reserve(state_parts());
}

void Trainer::Impl::save(const std::vector<std::string>& names, bool may_skip) {
  report(loss_->flush());
  note_bad_samples();
  // Which ranks take part in a collective must not depend on what only the main rank knows.
  const bool first_time = std::exchange(asked_step_, run_.step) != run_.step;
  if (first_time && !config_.checkpoint.sharded) steps_->optimizer().consolidate_state_dict();
  if (first_time && config_.checkpoint.sharded) steps_->sync_buffers();  // replica 0's are what is saved
  const bool writes = saver_->writes() && saver_->last_step() != run_.step;
  const train::SaveOrder order{.meta = {.step = run_.step,
                                        .replicas = config_.replicas,
                                        .threads = config_.threads,
                                        .configuration_hash = train::configuration_hash(start_.settings)},
                               .texts = {{"config.yml", start_.settings}},
                               .names = names,
                               .may_skip = may_skip,
                               .last = finished()};
  saver_->save(writes ? state_parts() : StateParts{}, order);
  if (reporter_) reporter_->pause();
}

/// Of this rank's; the others learn of it as of any error.
ResourceError Trainer::Impl::out_of_memory(const std::exception& error) const {
  std::string when = fmt::format("step {}", run_.step + 1);
  if (evaluating_) when = fmt::format("the evaluation after step {}", run_.step);
  if (!loss_) when = "setting up";
  return train::out_of_memory_error({.when = when,
                                     .cause = error.what(),
                                     .batch_size = config_.batch_size.is_auto() ? 0 : config_.batch_size.value(),
                                     .accumulate_steps = config_.accumulate_steps,
                                     .use = memory_use(job_.device()),
                                     .largest = steps_ ? steps_->memory_holders() : std::vector<train::Holder>{}});
}

/// What it throws names the options that the program has, or, where it has none, the fields to set.
TrainResult Trainer::Impl::fit() {
  try {
    return fit_or_explain();
  } catch (const Error& error) {
    if (!options_.has_options && !options_.has_commands) train::throw_in_program_words(error);
    throw;
  }
}

TrainResult Trainer::Impl::fit_or_explain() {
  try {
    return run();
  } catch (const train::NonFiniteLoss& fault) {
    throw DataError(fault.message(), keep_bad_batches(fault, fault.step()));
  } catch (const DataError& fault) {
    throw DataError(fault.message(), keep_bad_batches(fault, computed_step_));
  } catch (const std::exception& error) {
    if (!train::is_out_of_memory(error)) throw;
    throw out_of_memory(error);
  }
}

/// Of this rank's replicas, for inspection. Returns: the error's hint, with where they are.
std::string Trainer::Impl::keep_bad_batches(const DataError& fault, std::int64_t step) {
  std::string hint = fault.hint();
  if (!steps_ || start_.run_dir.empty()) return hint;
  try {
    const auto folder = std::filesystem::path(start_.run_dir) / "bad_batches";
    for (const auto& file : steps_->keep_bad_batches(step, computed_step_ - step, folder)) {
      hint += fmt::format("{}its batch is kept in {}", hint.empty() ? "" : "; ", file.string());
    }
  } catch (const std::exception& error) {
    log::warn("the batch of step {} could not be kept: {}", step, error.what());
  }
  return hint;
}

/// Saved already. Whether the job is started again is for all ranks to know: it decides the exit code.
void Trainer::Impl::leave() {
  result_.stopped_by = train::stop_name(stop_);
  const auto job = train::slurm_job();
  train::do_on_main(job_, [&] {
    reporter_->stopped(result_);
    if (job && train::asks_for_requeue(stop_)) result_.requeued = train::requeue(*job);
  });
  result_.requeued = broadcast_object(job_.group(), result_.requeued, 0);
}

TrainResult Trainer::Impl::run() {
  set_up();
  const view::BannerInfo info = banner();
  result_.replicas = config_.replicas;
  if (reporter_) {
    result_.run_dir = reporter_->folder().path();
    if (start_.in_old_folder) reporter_->resume(run_.step, job_.world_size());
    train::Plan ahead = plan_;
    ahead.total_steps = train::last_step(config_, plan_, run_);
    reporter_->start(info, ahead, start_.settings, run_.stages);
  }
  start_.checkpoint.reset();
  const bool was_complete = finished() && reporter_ && reporter_->has_summary();
  while (run_.epoch < config_.epochs && !finished()) {
    result_.epochs = run_.epoch + 1;
    train_epoch(run_.epoch);
  }
  saver_->finish();
  result_.checkpoint = saver_->last_path();
  result_.steps = run_.step;
  if (config_.scales_loss()) result_.skipped_steps = run_.skipped;
  result_.images_per_s = result_.seconds > 0 ? static_cast<double>(images_) / result_.seconds : 0;
  if (stopped()) {
    leave();
  } else {
    train::do_on_main(job_, [&] { report_end(was_complete); });
  }
  job_.barrier();
  return result_;
}

void Trainer::Impl::report_end(bool was_complete) {
  if (was_complete) return log::note("the run is complete: nothing is left to do after step {}", run_.step);
  result_.best = run_.best;
  result_.best_step = run_.best_step;
  reporter_->finish(result_, job_.world_size(), report_of(task_, evaluation_), evaluation_.tally.get());
}

Trainer::Trainer(Job job, Task& task, TrainConfig& config, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(job), task, config, std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::fit() {
  TrainResult result = impl_->fit();
  fault::note_step(-1);  // where it ends with an error, the step is where that happened
  return result;
}

}  // namespace lockstep
