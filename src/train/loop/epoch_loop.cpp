// SPDX-License-Identifier: Apache-2.0
#include "train/loop/epoch_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/objects.h"
#include "train/plan/decisions.h"
#include "train/plan/stages.h"
#include "train/step/loss_scale.h"
#include "train/step/not_finite.h"
#include "train/step/out_of_memory.h"

namespace lockstep::train {
namespace {

double seconds_since(TimePoint begin) { return Seconds(SystemClock::instance().now() - begin).count(); }

std::string reason_of(StageMove move, std::int64_t epoch, const TrainConfig::Stages& options) {
  if (move == StageMove::kRollBack) return "no_better";
  return epoch >= options.stop_epoch ? "stop_epoch" : "patience";
}

/// Adds to `known` the samples that any rank has skipped. Collective: yes.
void note_bad_samples(const Job& job, const ReplicaLoaders& data, std::set<std::int64_t>& known) {
  for (const auto& found : all_gather_object(job.group(), data.bad_samples())) known.insert(found.begin(), found.end());
}

StepGradients gradients_of(const TrainConfig& config, Learner& learner, std::int64_t step) {
  StepRunner& steps = learner.steps();
  return {.step = step,
          .model = steps.model().module().net(),
          .loss_scale = config.scales_loss() ? steps.weights().scaler().get_scale() : 1};
}

/// Reports the gradients of `step` to `watch`, which may be null, and to the sinks, if the settings request them.
void report_gradients(const TrainConfig& config, Learner& learner, RunSinks& sinks, StepWatch* watch,
                      std::int64_t step) {
  if (watch != nullptr) watch->on_gradients(gradients_of(config, learner, step));
  if (config.tensorboard_histograms == 0 || step % config.tensorboard_histograms != 0) return;
  sinks.gradients(gradients_of(config, learner, step));
}

/// Updates the weights for `step`. A non-finite loss is reported as the cause of non-finite gradients.
bool update(const Job& job, Learner& learner, LateSteps& late, std::int64_t step, double lr) {
  try {
    const bool stepped = learner.update(lr);
    const std::string outlier = learner.steps().weights().take_outlier();
    if (!outlier.empty() && job.is_main()) log::warn("step {}: {}", text::thousands(step), outlier);
    return stepped;
  } catch (const NonFiniteGradient& fault) {
    if (fault.steps_ago() == 0) late.flush();
    throw DataError(fmt::format("step {}: {}", text::thousands(step - fault.steps_ago()), fault.message()),
                    fault.hint());
  }
}

}  // namespace

EpochLoop::EpochLoop(const LoopParts& parts)
    : job_(parts.job),
      task_(parts.task),
      plan_(*parts.run.plan),
      state_(parts.run.state),
      learner_(*parts.run.learner),
      saver_(*parts.run.saver),
      sinks_(parts.sinks),
      wish_(parts.wish),
      trouble_(parts.trouble),
      reporter_(parts.reporter),
      profiler_(parts.profiler),
      watch_(parts.watch),
      until_step_(parts.until_step),
      late_(learner_, sinks_, state_, DigestMeter(job_.group(), plan_.config.optimizer.zero)),
      evaluations_(plan_, learner_, sinks_, state_),
      saves_(job_, plan_, learner_, saver_) {}

bool EpochLoop::complete() const {
  // A run that was divided anew may have had epochs of fewer steps: it then ends with its last epoch.
  return state_.step >= last_step(plan_.config, plan_.sums, state_) ||
         state_.epoch >= last_epoch(plan_.config, state_.stages) || evaluations_.reached_target();
}

StopReason EpochLoop::stopped_by() const { return complete() ? StopReason::kNone : late_.stop(); }

void EpochLoop::run() {
  late_.restart_rate();
  reporter_.start(state_.step);
  while (state_.epoch < plan_.config.epochs && !finished()) {
    counted_.epochs = state_.epoch + 1;
    train_epoch();
  }
  if (profiler_ != nullptr) profiler_->finish();
  trouble_.guard([this] { saver_.finish(); });
  report_saved();
}

void EpochLoop::train_epoch() {
  begin_stage();
  if (stopped_by() != StopReason::kNone) return;
  fault::in_section("begin_epoch", [&] { task_.begin_epoch({.epoch = state_.epoch, .stage = state_.stages.stage}); });
  epoch_ = {.begin = SystemClock::instance().now()};
  const std::int64_t batches = plan_.sums.batches_per_epoch;
  // A run stopped after the last batch of an epoch resumes at the end of the epoch.
  if (state_.batch < batches) learner_.steps().data().start_epoch(state_.epoch, state_.batch);
  while (state_.batch < batches && !finished()) {
    train_step();
    // The epoch's last step is saved after the evaluation, which may change the state.
    if (saves_.is_due(state_) && state_.batch < batches && !finished()) save({.may_skip = true});
    if (profiler_ != nullptr) profiler_->step();
  }
  late_.flush();
  learner_.steps().data().end_epoch();
  epoch_.seconds = seconds_since(epoch_.begin);
  counted_.seconds += epoch_.seconds;
  images_ += epoch_.images;
  // After a disk error, rescue_run() saves the run elsewhere.
  if (is_cut_short(until_step_, state_) || stopped_by() == StopReason::kDisk) return;
  if (stopped_by() != StopReason::kNone) return save({});
  end_epoch();
}

void EpochLoop::train_step() {
  const TrainConfig& config = plan_.config;
  StepRunner& steps = learner_.steps();
  const std::int64_t batches = std::min(config.accumulate_steps, plan_.sums.batches_per_epoch - state_.batch);
  computed_step_ = state_.step + 1;
  fault::note_step(computed_step_);
  StepWatch* const watch = watch_ != nullptr && watch_->wants(computed_step_) ? watch_ : nullptr;
  steps.pass().set_watch(watch);
  const auto& losses = steps.compute_gradients(batches);
  learner_.loss().name_terms(steps.pass().loss_names());
  const StopReason wish = trouble_.any() || saver_.has_failed() ? StopReason::kDisk : wish_.reason();
  late_.report(learner_.loss().add(computed_step_, losses, wish));
  report_saved();
  report_gradients(config, learner_, sinks_, watch, computed_step_);
  const bool stepped = update(job_, learner_, late_, computed_step_, learning_rate(config, plan_.sums, state_));
  ++state_.step;
  saves_.make_room(state_);
  if (!stepped) note_left_out();
  state_.batch += batches;
  epoch_.images += steps.images();
  late_.expect({.epoch = state_.epoch,
                .step_in_epoch = (state_.batch + config.accumulate_steps - 1) / config.accumulate_steps,
                .step = state_.step,
                .images = steps.images(),
                .lr = steps.weights().optimizer().lr(),
                .loss_scale = steps.weights().loss_scale(),
                .skipped = state_.skipped,
                .proved = steps.guard().proved()});
}

/// Records that the step just done did not change the weights.
void EpochLoop::note_left_out() {
  learner_.loss().left_out();
  ++state_.skipped;
  ++state_.epoch_skipped;
  const double scale = learner_.steps().weights().scaler().get_scale();
  require_useful_scale(scale, state_.step);
  if (std::exchange(said_left_out_, true) || !job_.is_main()) return;
  log::note(
      "step {} was skipped: a gradient was not finite with the loss scaled by {:g}; the scale is now {:g}. Further "
      "skipped steps are only counted",
      text::thousands(state_.step), *learner_.steps().weights().loss_scale(), scale);
}

/// Begins the second stage, or goes back to its beginning, if it is time to do so. If the run folder has failed, it
/// ends the run instead. Called before an epoch's first batch. All ranks make the same decision.
void EpochLoop::begin_stage() {
  if (state_.batch > 0) return;
  const std::int64_t epoch = state_.epoch;
  const TrainConfig& config = plan_.config;
  const StageMove move = next_move(config.stages, state_.stages, epoch);
  if (move == StageMove::kNone) return;
  trouble_.guard([this] { saver_.finish(); });
  // After a disk error the checkpoint to go back to may be lost, so that the run ends here and rescue_run() saves it.
  if (broadcast_object(job_.group(), trouble_.any(), 0)) return late_.stop_for(StopReason::kDisk);
  learner_.go_back_to(plan_.checkpoints(), state_.stages.base_step);
  make_move(config.stages, move, epoch, state_.best, state_.stages);
  learner_.set_decay(state_.stages.decay);
  sinks_.stage({.rolled_back = move == StageMove::kRollBack,
                .reason = reason_of(move, epoch, config.stages),
                .epoch = epoch,
                .step = state_.step,
                .decay = learner_.has_average() ? std::optional(state_.stages.decay) : std::nullopt,
                .from_step = state_.stages.base_step,
                .epochs = last_epoch(config, state_.stages),
                .total_steps = last_step(config, plan_.sums, state_)});
}

void EpochLoop::end_epoch() {
  const std::int64_t epoch = state_.epoch;
  RunState last = state_;  // the state before the epoch's last step, which an earlier process may have taken
  --last.step;
  StepRunner& steps = learner_.steps();
  if (plan_.config.bad_samples == "skip") note_bad_samples(job_, learner_.steps().data(), state_.bad_samples);
  EpochResult result{.epoch = epoch,
                     .step = state_.step,
                     .seconds = epoch_.seconds,
                     .images_per_s = epoch_.seconds > 0 ? static_cast<double>(epoch_.images) / epoch_.seconds : 0,
                     .data_wait = steps.data().wait_share(epoch_.seconds),
                     .bad_samples = std::ssize(state_.bad_samples),
                     .lr = learning_rate(plan_.config, plan_.sums, last),
                     .loss = learner_.loss().mean()};
  const bool evaluated = evaluations_.is_due(state_, epoch);
  const std::vector<std::string> names =
      evaluated ? evaluations_.evaluate(state_, epoch, result.loss) : std::vector<std::string>{};
  if (evaluated) result.metrics = evaluations_.metrics();
  result.memory = most_memory_used(job_);
  if (plan_.config.scales_loss()) result.skipped = state_.epoch_skipped;
  result.step_report = reporter_.end_epoch(state_.step);
  sinks_.epoch(result);
  late_.restart_rate();
  const bool whole = state_.batch == plan_.sums.batches_per_epoch;
  if (whole) {
    state_.epoch = epoch + 1;
    state_.batch = 0;
    state_.epoch_skipped = 0;
    learner_.loss().start_mean(0, 0);
  }
  const bool due = saves_.is_due(state_) || (whole && is_due_after(plan_.config.checkpoint, epoch));
  if (!names.empty() || due || finished()) save({.names = names});
}

void EpochLoop::save(const SaveReason& reason) {
  late_.flush();  // the pending step may carry a request to end the run
  if (plan_.config.bad_samples == "skip") note_bad_samples(job_, learner_.steps().data(), state_.bad_samples);
  trouble_.guard(
      [&] { saves_.save(state_, {.names = reason.names, .may_skip = reason.may_skip, .last = finished()}); });
  late_.restart_rate();
}

void EpochLoop::report_saved() {
  for (const SaveResult& saved : saver_.take_saved()) sinks_.save(saved);
}

TrainResult EpochLoop::result() const {
  TrainResult result = counted_;
  if (result.epochs == 0)
    result.epochs = state_.epoch + (state_.batch > 0 ? 1 : 0);  // epochs begun by earlier processes
  result.steps = state_.step;
  result.replicas = plan_.config.replicas;
  if (plan_.config.scales_loss()) result.skipped_steps = state_.skipped;
  result.images_per_s = result.seconds > 0 ? static_cast<double>(images_) / result.seconds : 0;
  result.reached_target = evaluations_.reached_target();
  result.metrics = evaluations_.metrics();
  result.best = state_.best;
  result.best_step = state_.best_step;
  result.run_dir = plan_.run_dir;
  return result;
}

std::string EpochLoop::position_text() const {
  return evaluations_.under_way() ? fmt::format("the evaluation after step {}", state_.step)
                                  : fmt::format("step {}", state_.step + 1);
}

}  // namespace lockstep::train
