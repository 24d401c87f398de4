// SPDX-License-Identifier: Apache-2.0
// The order of things in a run. What is said and written stands in reporter.cpp, the sums before it in plan.cpp.
#include "lockstep/train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/prepare.h"
#include "train/loss_meter.h"
#include "train/plan.h"
#include "train/reporter.h"
#include "train/task_net.h"

namespace lockstep {
namespace {

using train::EpochReport;
using train::Plan;
using train::Reporter;
using train::TaskNet;

std::shared_ptr<TaskNet> make_net(Task& task, const TrainConfig& config) {
  seed_all(static_cast<std::uint64_t>(config.seed));
  auto net = task.make_model();
  if (config.amp != "none") use_channels_last(*net);
  net->train();
  return std::make_shared<TaskNet>(task, std::move(net));
}

std::string precision_text(const TrainConfig& config) {
  return config.amp == "none" ? "float32" : config.amp + " autocast, channels last";
}

std::string schedule_text(const TrainConfig& config) {
  std::string after = config.schedule.type == "cosine" ? "cosine" : "constant";
  if (config.schedule.warmup_epochs <= 0) return after;
  return fmt::format("{} epochs of warm-up, then {}", config.schedule.warmup_epochs, after);
}

DataLoaderOptions loader_options(const TrainConfig& config) {
  return {.batch_size = config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .shuffle = true,
          .drop_last = config.drop_last,
          .seed = static_cast<std::uint64_t>(config.seed)};
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(Job job, Task& task, const TrainConfig& config, TrainerOptions options)
      : job_(std::move(job)), task_(task), config_(config), options_(std::move(options)) {}

  TrainResult fit();

 private:
  void set_up();
  [[nodiscard]] view::BannerInfo banner();
  [[nodiscard]] std::vector<view::BannerDevice> devices() const;
  void train_epoch(std::int64_t epoch);
  void accumulate(const Batch& batch, std::int64_t batches_in_step);
  void train_batch(const Batch& batch, std::int64_t batches_in_step, bool last_of_step);
  void optimizer_step();
  void evaluate_test_set();
  void save();
  [[nodiscard]] bool finished() const { return step_ >= plan_.total_steps || result_.reached_target; }
  [[nodiscard]] bool is_evaluation_epoch(std::int64_t epoch) const;

  Job job_;
  Task& task_;
  const TrainConfig& config_;
  TrainerOptions options_;
  std::optional<Reporter> reporter_;  // the main rank's
  std::shared_ptr<Dataset> train_set_;
  std::shared_ptr<Dataset> test_set_;
  std::optional<DataLoader> loader_;
  std::optional<DistributedDataParallel<TaskNet>> model_;
  std::optional<AdamW> optimizer_;
  std::optional<train::LossMeter> loss_;
  Plan plan_;
  TrainResult result_;
  at::Tensor last_counts_;
  at::Tensor step_loss_;  // of the batches of the step under way
  std::int64_t step_ = 0;
  std::int64_t last_saved_ = -1;
  std::int64_t images_ = 0;  // trained on, over all ranks
};

void Trainer::Impl::set_up() {
  config_.validate();
  require_cpu(job_.device());
  at::set_num_threads(static_cast<int>(config_.threads));
  keep_freed_memory();
  if (job_.is_main()) reporter_.emplace(config_, options_);
  train_set_ = task_.make_dataset(config_.data.train);
  if (!config_.data.test.empty()) test_set_ = task_.make_dataset(config_.data.test);
  loader_.emplace(train_set_, job_, loader_options(config_));
  plan_ = train::make_plan(config_, loader_->steps_per_epoch(), job_.replicas());
  if (plan_.total_steps == 0) {
    throw UsageError(fmt::format("{} samples make no full batch of {} on each of {} replicas", train_set_->size(),
                                 config_.batch_size, job_.replicas()),
                     "a smaller batch_size, or drop_last=false");
  }
  auto net = make_net(task_, config_);
  if (!options_.init_from.empty() && job_.is_main()) {
    load_model_state_dict(net->net(), load_checkpoint(options_.init_from.string()).state("model"));
  }
  model_.emplace(net, job_);
  optimizer_.emplace(*model_, AdamWOptions{.lr = plan_.lr, .weight_decay = config_.optimizer.weight_decay});
  loss_.emplace(job_.group());
  // Equal weights, but dropout of its own on every replica.
  seed_all(stream_seed(static_cast<std::uint64_t>(config_.seed), static_cast<std::uint64_t>(job_.rank()) + 1));
}

std::vector<view::BannerDevice> Trainer::Impl::devices() const {
  const view::CpuInfo cpu = view::cpu_info();
  const std::string key = "lockstep/device/";
  job_.store().set(key + std::to_string(job_.rank()),
                   fmt::format("{}, {} {}, {} of libtorch's threads", cpu.name, cpu.cores,
                               cpu.cores == 1 ? "core" : "cores", config_.threads));
  std::vector<view::BannerDevice> devices;
  for (int rank = 0; job_.is_main() && rank < job_.world_size(); ++rank) {
    devices.push_back({fmt::format("rank {}", rank), job_.store().get(key + std::to_string(rank), job_.timeout())});
  }
  return devices;
}

view::BannerInfo Trainer::Impl::banner() {
  return {.title = fmt::format("Lockstep {}: {}", kVersion, options_.recipe),
          .devices = devices(),
          .backend = job_.backend(),
          .backend_reason = job_.backend_reason(),
          .batch_per_replica = config_.batch_size,
          .replicas = job_.replicas(),
          .accumulate_steps = config_.accumulate_steps,
          .workers = config_.workers,
          .train_samples = train_set_->size(),
          .test_samples = test_set_ ? test_set_->size() : 0,
          .steps_per_epoch = plan_.steps_per_epoch,
          .epochs = config_.epochs,
          .max_steps = config_.max_steps,
          .precision = precision_text(config_),
          .learning_rate = plan_.lr,
          .base_learning_rate = config_.optimizer.lr,
          .learning_rate_scaling = config_.optimizer.lr_scaling,
          .schedule = schedule_text(config_),
          .model = task_.model_name(),
          .parameters = parameter_count(model_->module().net()),
          .run_folder = reporter_ ? reporter_->folder().path().string() : ""};
}

void Trainer::Impl::accumulate(const Batch& batch, std::int64_t batches_in_step) {
  at::Tensor output;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(config_.amp));
    output = model_->forward(batch);
  }
  at::Tensor loss = task_.loss(output, batch);
  if (batches_in_step > 1) loss = loss / static_cast<double>(batches_in_step);
  loss.backward();
  step_loss_ = step_loss_.defined() ? step_loss_ + loss.detach() : loss.detach();
}

void Trainer::Impl::train_batch(const Batch& batch, std::int64_t batches_in_step, bool last_of_step) {
  if (!last_of_step) {
    const NoSync local = model_->no_sync();
    accumulate(batch, batches_in_step);
    return;
  }
  accumulate(batch, batches_in_step);
  loss_->add(step_ + 1, step_loss_);
  step_loss_.reset();
  optimizer_step();
}

void Trainer::Impl::optimizer_step() {
  double scale = 1.0;
  if (config_.clip_norm > 0) scale = clip_factor(grad_norm(optimizer_->parameters()), config_.clip_norm);
  optimizer_->set_lr(plan_.schedule.lr(step_));
  optimizer_->step(scale);
  optimizer_->zero_grad();
  ++step_;
}

void Trainer::Impl::train_epoch(std::int64_t epoch) {
  const TimePoint begin = SystemClock::instance().now();
  loss_->reset_mean();
  std::int64_t step_in_epoch = 0;
  std::int64_t step_images = 0;
  std::int64_t epoch_images = 0;
  for (Batch& batch : loader_->epoch(epoch)) {
    const std::int64_t first = step_in_epoch * config_.accumulate_steps;
    const std::int64_t in_step = std::min(config_.accumulate_steps, plan_.batches_per_epoch - first);
    const bool last_of_step = batch.step + 1 == first + in_step;
    if (config_.amp != "none") batch.data = to_channels_last(batch.data);
    train_batch(batch, in_step, last_of_step);
    step_images += batch.size * job_.world_size();
    if (!last_of_step) continue;
    ++step_in_epoch;
    epoch_images += step_images;
    if (reporter_) {
      reporter_->step({.epoch = epoch,
                       .step_in_epoch = step_in_epoch,
                       .step = step_,
                       .images = step_images,
                       .lr = optimizer_->lr(),
                       .loss = loss_->latest()});
    }
    step_images = 0;
    if (config_.checkpoint.every_steps > 0 && step_ % config_.checkpoint.every_steps == 0) save();
    if (finished()) break;
  }
  loss_->flush();
  const double seconds = Seconds(SystemClock::instance().now() - begin).count();
  result_.seconds += seconds;
  images_ += epoch_images;
  const bool evaluated = is_evaluation_epoch(epoch);
  if (evaluated) evaluate_test_set();
  if (reporter_) {
    reporter_->epoch({.epoch = epoch,
                      .step = step_,
                      .seconds = seconds,
                      .images_per_s = static_cast<double>(epoch_images) / seconds,
                      .lr = optimizer_->lr(),
                      .loss = loss_->mean(),
                      .metrics = evaluated ? result_.metrics : std::vector<Metric>{}});
  }
}

bool Trainer::Impl::is_evaluation_epoch(std::int64_t epoch) const {
  if (!test_set_ || config_.eval_every_epochs == 0) return false;
  return (epoch + 1) % config_.eval_every_epochs == 0 || epoch + 1 == config_.epochs || step_ >= plan_.total_steps;
}

void Trainer::Impl::evaluate_test_set() {
  EvaluateOptions options{.batch_size = config_.batch_size,
                          .workers = config_.workers,
                          .prefetch_factor = config_.prefetch_factor,
                          .amp = config_.amp};
  if (reporter_) options.progress = [this](auto done, auto total) { reporter_->evaluating(done, total); };
  const Evaluation evaluation = evaluate(job_, task_, model_->module().net(), test_set_, options);
  result_.metrics = evaluation.metrics;
  last_counts_ = evaluation.counts;
  for (const Metric& metric : evaluation.metrics) {
    if (metric.name == config_.stop_at.metric && metric.value >= config_.stop_at.value) result_.reached_target = true;
  }
}

void Trainer::Impl::save() {
  if (!job_.is_main() || last_saved_ == step_) return;
  FileSystem& files = FileSystem::system();
  const auto folder = reporter_->folder().checkpoints();
  result_.checkpoint =
      commit_checkpoint(files, folder, {.step = step_, .replicas = job_.replicas(), .threads = config_.threads},
                        {{"model", model_->state_dict()},
                         {"optimizer", optimizer_->state_dict()},
                         {"run", {{"recipe", options_.recipe}, {"config", options_.config_yaml}, {"step", step_}}}});
  prune_checkpoints(files, folder, config_.checkpoint.keep_last);
  last_saved_ = step_;
  reporter_->pause();
}

TrainResult Trainer::Impl::fit() {
  set_up();
  const view::BannerInfo info = banner();
  if (reporter_) {
    result_.run_dir = reporter_->folder().path();
    reporter_->start(info, plan_);
  }
  for (std::int64_t epoch = 0; epoch < config_.epochs && !finished(); ++epoch) {
    result_.epochs = epoch + 1;
    train_epoch(epoch);
  }
  save();
  result_.steps = step_;
  result_.images_per_s = result_.seconds > 0 ? static_cast<double>(images_) / result_.seconds : 0;
  if (reporter_) {
    reporter_->finish(result_, job_.world_size(), last_counts_.defined() ? task_.report(last_counts_) : "");
  }
  job_.barrier();
  return result_;
}

Trainer::Trainer(Job job, Task& task, const TrainConfig& config, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(job), task, config, std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::fit() { return impl_->fit(); }

}  // namespace lockstep
