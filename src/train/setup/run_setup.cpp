// SPDX-License-Identifier: Apache-2.0
#include "train/setup/run_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/objects.h"
#include "lockstep/flight/recorder.h"
#include "lockstep/flight/section_timeouts.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/first_weights.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/loop/rescue.h"
#include "train/plan/run_state.h"
#include "train/plan/skipped_samples.h"
#include "train/ranks/same_outcome.h"
#include "train/resume/init_from.h"
#include "train/resume/resume.h"
#include "train/resume/stage_base.h"
#include "train/resume/start.h"
#include "train/settings/configuration.h"
#include "train/settings/precision.h"
#include "train/settings/schedule_choice.h"
#include "train/setup/auto_batch.h"
#include "train/setup/run_banner.h"
#include "train/setup/skip_file.h"
#include "train/step/loss_scale.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

// Settings that name a metric are checked before the first epoch.

/// Returns sample `index` of `set`, or the next one that can be read if bad samples are skipped.
Sample readable_sample(Dataset& set, std::int64_t index, const TrainConfig& config) {
  for (;; ++index) {
    SampleContext context(static_cast<std::uint64_t>(config.seed), 0, index);
    try {
      return set.get(index, context);
    } catch (const DataError&) {
      if (config.bad_samples != "skip" || index + 1 == set.size()) throw;
    }
  }
}

/// Evaluates one sample of `test_set`, if there is one and stop_at.metric or schedule.metric names a metric.
/// Collective: yes. Throws: UsageError naming the key and the nearest metric.
void require_metrics(const Job& job, Task& task, const TrainConfig& config, const std::shared_ptr<Dataset>& test_set,
                     torch::nn::Module& net) {
  std::vector<std::pair<std::string, std::string>> wanted = {{"stop_at.metric", config.stop_at.metric}};
  if (config.schedule.type == "plateau") wanted.emplace_back("schedule.metric", config.schedule.metric);
  std::erase_if(wanted, [](const auto& key) { return key.second.empty(); });
  if (wanted.empty() || !test_set || test_set->size() == 0) return;
  const auto first = make_dataset(1, [&](std::int64_t index) { return readable_sample(*test_set, index, config); });
  const EvaluateOptions options{
      .batch_size = 1, .workers = 0, .amp = config.amp, .channels_last = config.channels_last};
  std::vector<std::string> names;
  for (const Metric& metric : evaluate(job, task, net, first, options).metrics) names.push_back(metric.name);
  for (const auto& [key, name] : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw UsageError(fmt::format("{} is '{}', which is not a metric of the evaluation{}", key, name,
                                 text::did_you_mean(name, names)),
                     fmt::format("use one of {}", text::join(names)));
  }
}

void limit_sections(const TrainConfig::SectionTimeout& limits) {
  const auto limit = [](const char* section, double seconds) {
    if (seconds < 0) return;  // the timeout is determined during the run
    flight::limit_section(flight::section_of(section),
                          std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0)));
  };
  limit("setup", limits.setup);
  limit("data", limits.data);
  limit("forward", limits.forward);
  limit("backward", limits.backward);
  limit("optimizer", limits.optimizer);
  limit("evaluate", limits.evaluate);
  limit("save", limits.save);
}

/// Returns the absolute path of weights to start from. A run folder or RUN:NAME becomes its present checkpoint, because
/// the run may write others later.
fs::path lasting_path(const fs::path& weights) {
  const std::string name = weights.string();
  const bool is_file = fs::is_regular_file(weights) || fs::is_regular_file(name.substr(0, name.rfind(':')));
  if (is_file) return fs::absolute(weights).lexically_normal();
  return fs::canonical(resolve_checkpoint(name));
}

/// Throws: UsageError if the run's settings, which list `skipped` samples, are too large to be read from a checkpoint.
void require_readable(const std::string& settings, std::int64_t skipped) {
  const std::string why = yaml_problem(settings);
  if (why.empty()) return;
  throw UsageError(fmt::format("the run's settings, with {} skipped samples, could not be read back: {}", skipped, why),
                   skipped == 0 ? "shorten the settings" : "skip fewer samples, or remove them from data.train");
}

class RunSetup {
 public:
  RunSetup(const RunInputs& given, ReadyRun& run)
      : job_(given.job), task_(given.task), config_(given.config), options_(given.options), run_(run) {}

  void run() {
    const trace::Span span({.name = "setup"});
    check_settings();
    find_start();
    run_.learner.emplace(job_, task_, config_);
    open_data();
    make_plan();
    run_.learner->build(start_, {options_.init_from, options_.init_from_partial});
    keep_first_weights();
    open_saver();
    require_metrics(job_, task_, config_, test_set_, steps().model().module().net());
    bring_best();
    run_.banner = banner();
  }

 private:
  void check_settings() {
    config_.validate();
    require_one_start(options_);
    require_amp(config_, job_.device());
    use_tf32(config_);
    keep_freed_memory();
    limit_sections(config_.section_timeout);
  }

  void find_start() {
    start_ = agree_on_start(job_, config_, options_, run_.folder);
    run_.run_dir = start_.run_dir;
    run_.state = start_.run;
    require_rescue(job_, options_.rescue, run_.run_dir);
    require_measurable(config_, job_.device());
    tensor::set_threads(static_cast<int>(config_.threads));
  }

  void open_data() {
    const log::QuietNotes others(!job_.is_main());  // otherwise all ranks would print the same notes
    fault::in_section("make_dataset", [&] {
      train_set_ = task_.make_training_set(config_.data.train);
      if (!config_.data.test.empty()) test_set_ = task_.make_dataset(config_.data.test);
    });
    if (test_set_ && test_set_->size() == 0 && config_.eval_every_epochs > 0) {
      throw UsageError(fmt::format("data.test is {}, which has no samples to evaluate", config_.data.test),
                       "leave data.test empty, or set eval_every_epochs=0, for a run without evaluations");
    }
    if (start_.resumed && run_.state.samples != train_set_->size()) {
      throw UsageError(fmt::format("data.train has {} samples, but had {} when the checkpoint was written",
                                   train_set_->size(), run_.state.samples),
                       or_only_weights("continue with the same samples"));
    }
    run_.state.samples = train_set_->size();
    if (start_.skips_more) skip_more();
    config_.data.skip_samples.clear();  // the settings now list these samples
    start_.settings = settings_text(options_.recipe, config_);
    const std::int64_t skipped = SkippedSamples(config_.data.skipped_samples).size();
    require_readable(start_.settings, skipped);
    if (skipped > 0 && job_.is_main()) log::note("{} left out", counted(skipped, "sample", "samples"));
  }

  /// Skips the samples listed in rank 0's file data.skip_samples, from the next batch on. Collective: yes.
  void skip_more() {
    std::vector<std::int64_t> indices;
    do_on_main(job_, [&] { indices = read_skip_file(config_.data.skip_samples, *train_set_); });
    SkippedSamples skipped(config_.data.skipped_samples);
    const auto found = all_gather_object(job_.group(), indices);
    for (const std::int64_t index : found.front()) {
      skipped.add(index, {.epoch = run_.state.epoch, .batch = run_.state.batch});
    }
    config_.data.skipped_samples = skipped.to_maps();
  }

  /// Returns the batches of one replica per epoch. With drop_last, other replicas may fill more batches than those that
  /// the run started with; the run does not train on them, so that its steps and its schedule stay the same.
  [[nodiscard]] std::int64_t batches_per_epoch() {
    const std::int64_t now = steps().data().batches_per_epoch();
    const std::int64_t begun = run_.state.begun_replicas;
    if (begun == 0 || !config_.drop_last) return now;
    const std::int64_t begun_size = std::max<std::int64_t>(1, config_.batch_size * config_.replicas / begun);
    return std::min(now, full_batches(train_set_->size(), begun, begun_size));
  }

  void make_plan() {
    if (config_.batch_size.is_auto()) find_batch();
    steps().data().open(train_set_);
    const Plan sums = train::make_plan(config_, batches_per_epoch(), config_.replicas, run_.state.begun_replicas);
    require_steps(sums, config_, train_set_->size());
    // With drop_last, an epoch may have fewer batches after the number of replicas has changed.
    if (run_.state.begun_replicas > 0) run_.state.batch = std::min(run_.state.batch, sums.batches_per_epoch);
    require_place(run_.state, sums.batches_per_epoch);
    if (config_.schedule.type == "plateau" && !run_.state.plateau) run_.state.plateau = PlateauState{.lr = sums.lr};
    run_.plan.emplace(RunPlan{.config = config_,
                              .recipe = options_.recipe,
                              .settings = start_.settings,
                              .run_dir = start_.run_dir,
                              .train_set = train_set_,
                              .test_set = test_set_,
                              .sums = sums,
                              .folder_has_run = start_.in_old_folder,
                              .world_size = job_.world_size()});
  }

  /// Finds the batch size and writes it to the settings, which a resumed run reads.
  void find_batch() {
    if (job_.is_main()) log::note("batch_size is auto: looking for the largest that fits in memory");
    const auto make_net = [this] { return steps().make_net(); };
    config_.batch_size =
        find_batch_size({.job = job_, .task = task_, .config = config_, .dataset = train_set_, .make_net = make_net});
    start_.settings = settings_text(options_.recipe, config_);
    found_batch_ = true;
  }

  /// Writes into the run folder which weights the run started from, for a replay from the first step. Collective: yes.
  void keep_first_weights() {
    do_on_main(job_, [&] {
      if (start_.resumed && start_.saved_here) return;  // the folder has the file of the run's start
      const std::string text = first_weights_text();
      const fs::path file = run_.folder->path() / kFirstWeightsFile;
      if (!text.empty()) return run_.folder->write(kFirstWeightsFile, text);
      if (FileSystem::system().exists(file)) FileSystem::system().remove(file);  // of a start that saved nothing
    });
  }

  /// Returns the content of the file kFirstWeightsFile; empty if the run starts from random weights.
  [[nodiscard]] std::string first_weights_text() const {
    constexpr std::uint64_t kMostBytes = 1U << 16U;
    if (start_.resumed) {
      const fs::path before = run_folder_of(start_.checkpoint->path());
      const bool is_known = !before.empty() && FileSystem::system().exists(before / kFirstWeightsFile);
      return is_known ? FileSystem::system().read(before / kFirstWeightsFile, kMostBytes) : "";
    }
    if (options_.init_from.empty()) return "";
    return fmt::format("{{\"path\": {}, \"partial\": {}}}\n",
                       text::json_quote(lasting_path(options_.init_from).string()), options_.init_from_partial);
  }

  void open_saver() {
    run_.saver = std::make_unique<RunSaver>(job_, config_.checkpoint,
                                            run_.folder ? run_.folder->checkpoints() : std::filesystem::path());
    if (run_.folder) run_.saver->require_before_writing([&folder = *run_.folder] { folder.require_there(); });
    if (start_.saved_here) {
      run_.saver->start_at(run_.state.step, start_.checkpoint ? start_.checkpoint->path() : "");
    }
  }

  /// Copies the best checkpoint so far, if the run resumes in a different folder. It comes last: from then on, the
  /// folder holds a run. Collective: yes.
  void bring_best() {
    do_on_main(job_, [&] {
      const bool is_elsewhere = start_.resumed && !start_.saved_here;
      if (is_elsewhere) copy_best(FileSystem::system(), *start_.checkpoint, run_.folder->checkpoints());
    });
  }

  [[nodiscard]] view::BannerInfo banner() {
    return run_banner({.job = job_,
                       .config = config_,
                       .recipe = options_.recipe,
                       .model = task_.model_name(),
                       .steps = steps(),
                       .plan = run_.plan->sums,
                       .train_samples = train_set_->size(),
                       .test_samples = test_set_ ? test_set_->size() : 0,
                       .run_folder = run_.folder ? run_.folder->path() : std::filesystem::path(),
                       .found_batch = found_batch_,
                       .averaged = run_.learner->has_average(),
                       .start = start_});
  }

  [[nodiscard]] StepRunner& steps() { return run_.learner->steps(); }

  Job& job_;
  Task& task_;
  TrainConfig& config_;
  TrainerOptions& options_;
  ReadyRun& run_;
  Start start_;
  std::shared_ptr<Dataset> train_set_;
  std::shared_ptr<Dataset> test_set_;
  bool found_batch_ = false;
};

}  // namespace

void set_up_run(const RunInputs& given, ReadyRun& run) { RunSetup(given, run).run(); }

}  // namespace lockstep::train
