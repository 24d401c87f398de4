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
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/prepare.h"
#include "train/configuration.h"
#include "train/loss_meter.h"
#include "train/plan.h"
#include "train/reporter.h"
#include "train/resume.h"
#include "train/run_state.h"
#include "train/share_state.h"
#include "train/task_net.h"

namespace lockstep {
namespace {

using train::EpochReport;
using train::Plan;
using train::Reporter;
using train::RunState;
using train::StepReport;
using train::TaskNet;

std::uint64_t seed_of(const TrainConfig& config) { return static_cast<std::uint64_t>(config.seed); }

/// Of the random numbers (dropout) of one batch of one replica. A function of nothing else, so that there is no state
/// to save. Streams up to the number of replicas belong to them.
std::uint64_t batch_seed(const TrainConfig& config, int replica, std::int64_t batch_number) {
  const std::uint64_t stream = stream_seed(seed_of(config), static_cast<std::uint64_t>(replica) + 1);
  return stream_seed(stream, static_cast<std::uint64_t>(batch_number));
}

std::shared_ptr<TaskNet> make_net(Task& task, const TrainConfig& config) {
  seed_all(seed_of(config));
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

/// "1 process", "3 processes".
std::string counted(std::int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// "4 on 3 processes" where that is not one each.
std::string replicas_text(int replicas, int world) {
  if (replicas == world) return "";
  return fmt::format("{} on {}", replicas, counted(world, "process", "processes"));
}

bool reaches(const Metric& metric, double value) {
  return metric.lower_is_better ? metric.value <= value : metric.value >= value;
}

void require_possible(const TrainConfig& config, const c10::Device& device) {
  require_cpu(device);
  if (config.amp == "fp16") throw UsageError("amp is fp16 and the device is the CPU", "--set amp=bf16, or amp=none");
}

DataLoaderOptions loader_options(const TrainConfig& config, const ShardSpec& shard) {
  return {.batch_size = config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .shuffle = true,
          .drop_last = config.drop_last,
          .seed = seed_of(config),
          .shard = shard,
          .pin_memory = config.pin_memory};
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(Job job, Task& task, TrainConfig& config, TrainerOptions options)
      : job_(std::move(job)), task_(task), config_(config), options_(std::move(options)) {}

  TrainResult fit();

 private:
  void set_up();
  void open_run();
  void agree_on_start();
  void load_data();
  void build();
  [[nodiscard]] view::BannerInfo banner();
  [[nodiscard]] std::vector<view::BannerDevice> devices() const;
  void train_epoch(std::int64_t epoch);
  void start_passes(std::int64_t epoch, std::int64_t first_batch);
  void train_step(std::int64_t epoch, std::int64_t batches);
  void train_replica(Replica& replica, std::int64_t epoch, std::int64_t batches);
  void train_batch(Replica& replica, const Batch& batch, double share);
  void optimizer_step();
  void report(const std::optional<train::LossReading>& reading);
  void end_epoch(std::int64_t epoch, double seconds, std::int64_t images);
  bool evaluate_test_set();
  bool note_best();
  void save(bool best);
  [[nodiscard]] bool is_due() const {
    return config_.checkpoint.every_steps > 0 && run_.step % config_.checkpoint.every_steps == 0;
  }
  [[nodiscard]] bool finished() const { return run_.step >= plan_.total_steps || result_.reached_target; }
  [[nodiscard]] bool is_evaluation_epoch(std::int64_t epoch) const;

  Job job_;
  Task& task_;
  TrainConfig& config_;
  TrainerOptions options_;
  std::string settings_;              // as YAML
  train::RunPlace place_;             // the main rank\'s
  std::optional<Reporter> reporter_;  // the main rank's
  std::optional<Checkpoint> start_;   // the main rank's: what it goes on from
  bool resumed_ = false;
  int replicas_ = 1;
  RunState run_;
  std::shared_ptr<Dataset> train_set_;
  std::shared_ptr<Dataset> test_set_;
  std::vector<DataLoader> loaders_;        // one for each replica of this rank
  std::vector<DataLoader::Epoch> passes_;  // theirs, of the epoch under way
  std::optional<DistributedDataParallel<TaskNet>> model_;
  std::optional<ReplicaTeam> team_;
  std::optional<AdamW> optimizer_;
  std::optional<train::LossMeter> loss_;
  std::vector<at::Tensor> losses_;        // of the step under way, by replica of this rank
  std::int64_t step_images_ = 0;          // of this rank's replicas
  std::optional<StepReport> unreported_;  // a step whose loss is still being combined
  Plan plan_;
  TrainResult result_;
  at::Tensor last_counts_;
  std::int64_t last_saved_ = -1;
  std::int64_t images_ = 0;  // trained on, over all replicas
};

void Trainer::Impl::open_run() {
  // A group that the agent started again goes on from what the one before has saved, if anything.
  const bool again = job_.rank_info().restart_count > 0 && !options_.run_dir.empty();
  const bool saved = again && has_step_folders(FileSystem::system(), options_.run_dir / "checkpoints");
  if (again && (saved || options_.resume == "none")) options_.resume = "auto";
  place_ = train::choose_place(options_);
  place_.resume = place_.resume || again;
  reporter_.emplace(config_, options_, place_);
  remove_checkpoint_leftovers(FileSystem::system(), reporter_->folder().checkpoints());
  start_ = train::find_start(options_, place_);
  if (!start_) return;
  const CheckpointMeta& meta = start_->manifest().meta;
  if (config_.replicas != 0 && config_.replicas != meta.replicas) {
    throw UsageError(fmt::format("replicas is {} and the checkpoint's is {}", config_.replicas, meta.replicas),
                     "leave it out: the result depends on it");
  }
  if (config_.threads != 0 && config_.threads != meta.threads) {
    log::warn("threads is {} and was {}: the result will not have the bits of the run before", config_.threads,
              meta.threads);
  }
  train::require_same_settings(*start_, train::settings_text(options_.recipe, config_));
}

void Trainer::Impl::agree_on_start() {
  if (job_.is_main()) open_run();
  StateDict start;
  if (start_) {
    start = start_->state("run");
    start["replicas"] = start_->manifest().meta.replicas;
    start["threads"] = start_->manifest().meta.threads;
  }
  start = train::share_state(start, job_.group());
  resumed_ = !start.empty();
  if (resumed_) {
    run_ = train::run_state_of(start);
    config_.replicas = train::entry<std::int64_t>(start, "replicas");
    if (config_.threads == 0) config_.threads = train::entry<std::int64_t>(start, "threads");
  }
  if (config_.replicas == 0) config_.replicas = job_.world_size();
  if (config_.threads == 0) config_.threads = 1;
  if (config_.replicas < job_.world_size()) {
    throw UsageError(fmt::format("{} on {}: each needs one", counted(config_.replicas, "replica", "replicas"),
                                 counted(job_.world_size(), "process", "processes")),
                     fmt::format("start at most {}", counted(config_.replicas, "process", "processes")));
  }
  replicas_ = static_cast<int>(config_.replicas);
  job_.set_replicas(replicas_);
  settings_ = train::settings_text(options_.recipe, config_);
}

void Trainer::Impl::load_data() {
  train_set_ = task_.make_dataset(config_.data.train);
  if (!config_.data.test.empty()) test_set_ = task_.make_dataset(config_.data.test);
  if (resumed_ && run_.samples != train_set_->size()) {
    throw UsageError(fmt::format("data.train has {} samples and had {} when the checkpoint was written",
                                 train_set_->size(), run_.samples),
                     "go on with the same samples, or take only the weights: --init-from instead of --resume");
  }
  run_.samples = train_set_->size();
  for (int replica = team_->block().begin; replica < team_->block().end; ++replica) {
    loaders_.emplace_back(train_set_, loader_options(config_, {replica, replicas_}));
  }
  plan_ = train::make_plan(config_, loaders_.front().steps_per_epoch(), replicas_);
  if (plan_.total_steps > 0) return;
  throw UsageError(fmt::format("{} samples make no full batch of {} on each of {} replicas", train_set_->size(),
                               config_.batch_size, replicas_),
                   "a smaller batch_size, or drop_last=false");
}

void Trainer::Impl::build() {
  auto net = make_net(task_, config_);
  if (start_) {
    load_model_state_dict(net->net(), start_->state("model"));
  } else if (!options_.init_from.empty() && job_.is_main()) {
    load_model_state_dict(net->net(), load_checkpoint(options_.init_from.string()).state("model"));
  }
  model_.emplace(net, job_, DdpOptions{.broadcast_buffers = false, .replicas = replicas_, .exact = config_.exact});
  optimizer_.emplace(*model_, AdamWOptions{.lr = plan_.lr, .weight_decay = config_.optimizer.weight_decay});
  if (resumed_) {
    optimizer_->load_state_dict(train::share_state(start_ ? start_->state("optimizer") : StateDict{}, job_.group()));
  }
  loss_.emplace(job_.group(), team_->block(), replicas_);
  loss_->start_mean(run_.loss_sum, run_.loss_count);
}

void Trainer::Impl::set_up() {
  config_.validate();
  require_possible(config_, job_.device());
  keep_freed_memory();
  agree_on_start();
  at::set_num_threads(static_cast<int>(config_.threads));
  team_.emplace(job_.group(), ReplicaTeamOptions{.replicas = replicas_,
                                                 .threads = static_cast<int>(config_.threads),
                                                 .on_switch = [this](int local) { model_->enter_replica(local); }});
  load_data();
  build();
  last_saved_ = resumed_ && reporter_ && start_ && start_->path().parent_path() == reporter_->folder().checkpoints()
                    ? run_.step
                    : -1;
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
  view::BannerInfo info{.title = fmt::format("Lockstep {}: {}", kVersion, options_.recipe),
                        .devices = devices(),
                        .backend = job_.backend(),
                        .backend_reason = job_.backend_reason(),
                        .batch_per_replica = config_.batch_size,
                        .replicas = replicas_,
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
  const std::string replicas = replicas_text(replicas_, job_.world_size());
  if (!replicas.empty()) info.extra.emplace_back("replicas", replicas);
  if (start_) info.resumed_from = fmt::format("{}, step {}", start_->path().string(), text::thousands(run_.step));
  return info;
}

void Trainer::Impl::train_batch(Replica& replica, const Batch& batch, double share) {
  at::Tensor output;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(config_.amp));
    output = model_->forward(batch);
  }
  at::Tensor loss = task_.loss(output, batch);
  if (share != 1) loss = loss * share;
  loss.backward();
  at::Tensor& sum = losses_[static_cast<std::size_t>(replica.local())];
  sum = sum.defined() ? sum + loss.detach() : loss.detach();
}

void Trainer::Impl::train_replica(Replica& replica, std::int64_t epoch, std::int64_t batches) {
  for (std::int64_t i = 0; i < batches; ++i) {
    Batch* batch = passes_[static_cast<std::size_t>(replica.local())].next();
    if (batch == nullptr) throw InternalError("the loader has fewer batches than the plan");
    step_images_ += batch->size;
    if (config_.amp != "none") batch->data = to_channels_last(batch->data);
    seed_all(batch_seed(config_, replica.index(), epoch * plan_.batches_per_epoch + batch->step));
    const double share = 1.0 / static_cast<double>(batches);
    if (i + 1 == batches) {
      train_batch(replica, *batch, share);
    } else {
      const NoSync local = model_->no_sync();
      train_batch(replica, *batch, share);
    }
  }
}

void Trainer::Impl::train_step(std::int64_t epoch, std::int64_t batches) {
  model_->sync_buffers();
  losses_.assign(loaders_.size(), {});
  step_images_ = 0;
  team_->run([&](Replica& replica) { train_replica(replica, epoch, batches); });
  report(loss_->add(run_.step + 1, losses_));
  optimizer_step();
}

void Trainer::Impl::optimizer_step() {
  double scale = 1.0;
  if (config_.clip_norm > 0) scale = clip_factor(grad_norm(optimizer_->parameters()), config_.clip_norm);
  optimizer_->set_lr(plan_.schedule.lr(run_.step));
  optimizer_->step(scale);
  optimizer_->zero_grad();
  ++run_.step;
}

void Trainer::Impl::report(const std::optional<train::LossReading>& reading) {
  if (!reading || !unreported_) return;
  unreported_->loss = reading->loss;
  if (reporter_) reporter_->step(*unreported_);
  unreported_.reset();
}

void Trainer::Impl::start_passes(std::int64_t epoch, std::int64_t first_batch) {
  passes_.clear();
  for (DataLoader& loader : loaders_) passes_.push_back(loader.epoch(epoch, first_batch));
}

void Trainer::Impl::train_epoch(std::int64_t epoch) {
  const TimePoint begin = SystemClock::instance().now();
  std::int64_t epoch_images = 0;
  start_passes(epoch, run_.batch);
  while (run_.batch < plan_.batches_per_epoch && !finished()) {
    const std::int64_t batches = std::min(config_.accumulate_steps, plan_.batches_per_epoch - run_.batch);
    train_step(epoch, batches);
    run_.batch += batches;
    const std::int64_t images = step_images_ / static_cast<std::int64_t>(loaders_.size()) * replicas_;
    epoch_images += images;
    unreported_ = StepReport{.epoch = epoch,
                             .step_in_epoch = (run_.batch + config_.accumulate_steps - 1) / config_.accumulate_steps,
                             .step = run_.step,
                             .images = images,
                             .lr = optimizer_->lr()};
    // The epoch's last step is saved after the evaluation, which may change what is saved.
    if (is_due() && run_.batch < plan_.batches_per_epoch && !finished()) save(false);
  }
  report(loss_->flush());
  passes_.clear();
  images_ += epoch_images;
  end_epoch(epoch, Seconds(SystemClock::instance().now() - begin).count(), epoch_images);
}

void Trainer::Impl::end_epoch(std::int64_t epoch, double seconds, std::int64_t images) {
  result_.seconds += seconds;
  const bool evaluated = is_evaluation_epoch(epoch) && evaluate_test_set();
  const bool best = evaluated && note_best();
  if (reporter_) {
    reporter_->epoch({.epoch = epoch,
                      .step = run_.step,
                      .seconds = seconds,
                      .images_per_s = seconds > 0 ? static_cast<double>(images) / seconds : 0,
                      .lr = optimizer_->lr(),
                      .loss = loss_->mean(),
                      .metrics = evaluated ? result_.metrics : std::vector<Metric>{}});
  }
  if (run_.batch == plan_.batches_per_epoch) {
    run_.epoch = epoch + 1;
    run_.batch = 0;
    loss_->start_mean(0, 0);
  }
  if (best || is_due() || finished()) save(best);
}

bool Trainer::Impl::is_evaluation_epoch(std::int64_t epoch) const {
  if (!test_set_ || config_.eval_every_epochs == 0) return false;
  return (epoch + 1) % config_.eval_every_epochs == 0 || epoch + 1 == config_.epochs || run_.step >= plan_.total_steps;
}

bool Trainer::Impl::evaluate_test_set() {
  model_->sync_buffers();
  EvaluateOptions options{.batch_size = config_.batch_size,
                          .workers = config_.workers,
                          .prefetch_factor = config_.prefetch_factor,
                          .amp = config_.amp,
                          .replicas = replicas_};
  if (reporter_) options.progress = [this](auto done, auto total) { reporter_->evaluating(done, total); };
  const Evaluation evaluation = evaluate(job_, task_, model_->module().net(), test_set_, options);
  result_.metrics = evaluation.metrics;
  last_counts_ = evaluation.counts;
  for (const Metric& metric : evaluation.metrics) {
    if (metric.name == config_.stop_at.metric && reaches(metric, config_.stop_at.value)) result_.reached_target = true;
  }
  return true;
}

/// The metric of stop_at decides, else the task's first.
bool Trainer::Impl::note_best() {
  for (const Metric& metric : result_.metrics) {
    if (!config_.stop_at.metric.empty() && metric.name != config_.stop_at.metric) continue;
    if (!train::is_better(metric, run_.best)) return false;
    run_.best = metric;
    run_.best_step = run_.step;
    return true;
  }
  return false;
}

void Trainer::Impl::save(bool best) {
  report(loss_->flush());
  if (!job_.is_main()) return;
  FileSystem& files = FileSystem::system();
  const auto folder = reporter_->folder().checkpoints();
  if (last_saved_ != run_.step) {
    run_.loss_sum = loss_->sum();
    run_.loss_count = loss_->count();
    StateDict run = train::to_state(run_);
    run["recipe"] = options_.recipe;
    result_.checkpoint = commit_checkpoint(
        files, folder,
        {.step = run_.step,
         .replicas = replicas_,
         .threads = config_.threads,
         .configuration_hash = train::configuration_hash(settings_)},
        {{"model", model_->state_dict()}, {"optimizer", optimizer_->state_dict()}, {"run", std::move(run)}},
        {{"config.yml", settings_}});
    last_saved_ = run_.step;
  }
  if (best) name_checkpoint(files, folder, "best", result_.checkpoint);
  prune_checkpoints(files, folder, config_.checkpoint.keep_last);
  reporter_->pause();
}

TrainResult Trainer::Impl::fit() {
  set_up();
  const view::BannerInfo info = banner();
  result_.replicas = replicas_;
  if (reporter_) {
    result_.run_dir = reporter_->folder().path();
    if (start_) result_.checkpoint = start_->path();
    if (place_.resume) reporter_->resume(run_.step, job_.world_size());
    reporter_->start(info, plan_, settings_);
  }
  start_.reset();
  const bool was_complete = finished();
  while (run_.epoch < config_.epochs && !finished()) {
    const std::int64_t epoch = run_.epoch;
    result_.epochs = epoch + 1;
    train_epoch(epoch);
  }
  result_.steps = run_.step;
  result_.images_per_s = result_.seconds > 0 ? static_cast<double>(images_) / result_.seconds : 0;
  if (reporter_ && was_complete) {
    log::note("the run is complete: nothing is left to do after step {}", run_.step);
  } else if (reporter_) {
    reporter_->finish(result_, job_.world_size(), last_counts_.defined() ? task_.report(last_counts_) : "");
  }
  job_.barrier();
  return result_;
}

Trainer::Trainer(Job job, Task& task, TrainConfig& config, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(job), task, config, std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::fit() { return impl_->fit(); }

}  // namespace lockstep
