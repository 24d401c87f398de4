// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_runner.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"
#include "train/settings/graph_choice.h"
#include "train/settings/optimizer_choice.h"
#include "train/step/bad_batch.h"
#include "train/step/loss_scale.h"
#include "train/task/loss_terms.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::uint64_t seed_of(const TrainConfig& config) { return static_cast<std::uint64_t>(config.seed); }

/// Of the random numbers (dropout) of one batch of one replica. A function of nothing else, so that there is no state
/// to save.
std::uint64_t batch_seed(const TrainConfig& config, int replica, std::int64_t batch_number) {
  const std::uint64_t stream = stream_seed(seed_of(config), static_cast<std::uint64_t>(replica) + 1);
  return stream_seed(stream, static_cast<std::uint64_t>(batch_number));
}

std::vector<Holder> batch_holders(const Batch& batch) {
  std::vector<Holder> found = {{"batch.data", static_cast<std::int64_t>(batch.data.nbytes())}};
  if (batch.target.defined()) found.push_back({"batch.target", static_cast<std::int64_t>(batch.target.nbytes())});
  return found;
}

DataLoaderOptions loader_options(const TrainConfig& config, const Task& task, const ShardSpec& shard,
                                 c10::Device device) {
  return {.batch_size = config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .persistent_workers = config.persistent_workers,
          .shuffle = true,
          .drop_last = config.drop_last,
          .seed = seed_of(config),
          .shard = shard,
          .bad_samples = config.bad_samples == "skip" ? BadSamples::kSkip : BadSamples::kError,
          .timeout_s = config.loader_timeout_s,
          .pin_memory = config.pin_memory,
          .device = config.pin_memory ? device : c10::Device(c10::kCPU),
          .collate = task.collate()};
}

}  // namespace

StepRunner::StepRunner(Job job, Task& task, const TrainConfig& config)
    : job_(std::move(job)),
      task_(task),
      config_(config),
      replicas_(static_cast<int>(config.replicas)),
      scaler_(scaler_options(job_, config)),
      team_(job_.group(), {.replicas = replicas_,
                           .threads = static_cast<int>(config.threads),
                           .on_switch = [this](int local) { model_->enter_replica(local); }}) {}

void StepRunner::load(const std::shared_ptr<Dataset>& dataset) {
  for (int replica = block().begin; replica < block().end; ++replica) {
    loaders_.emplace_back(dataset, loader_options(config_, task_, {replica, replicas_}, job_.device()));
  }
}

std::shared_ptr<TaskNet> StepRunner::make_net() {
  seed_all(seed_of(config_));
  auto net = fault::in_section("make_model", [&] { return task_.make_model(); });
  if (config_.channels_last) use_channels_last(*net);
  if (config_.fused_layers && job_.device().is_cpu()) optimized_ = nn::optimize(*net);
  net->to(job_.device());
  net->train();
  return std::make_shared<TaskNet>(task_, std::move(net));
}

void StepRunner::build(const std::shared_ptr<TaskNet>& net) {
  if (config_.sync_batchnorm && sync_batch_norm(net->net(), job_) == 0 && job_.is_main()) {
    log::note("sync_batchnorm is true, and the network has no lockstep::nn::BatchNorm: it changes nothing");
  }
  // What it is made on: the model keeps accumulators of gradients.
  std::unique_ptr<tensor::DeviceGraph> graph = graph_of_steps();
  const std::shared_ptr<void> stream = graph ? graph->enter() : nullptr;
  // Buffers are spread once a step, below: a step then depends on replica 0's only, which are those that are saved.
  model_.emplace(net, job_,
                 DdpOptions{.broadcast_buffers = false,
                            .replicas = replicas_,
                            .exact = config_.exact,
                            .first_bucket_bytes = kMiB,
                            .bucket_bytes = config_.bucket_cap_mb * kMiB,
                            .grad_norm = norm_is_counted()});
  optimizer_ = make_optimizer();
  if (graph) record_steps(std::move(graph));
}

std::unique_ptr<Optimizer> StepRunner::make_optimizer() {
  const auto make = [this](NamedTensors parameters) -> std::unique_ptr<Optimizer> {
    return train::make_optimizer(config_.optimizer, std::move(parameters));
  };
  if (!config_.optimizer.zero) return make(named_parameters_of(*model_));
  return std::make_unique<ZeroRedundancyOptimizer>(named_parameters_of(*model_), job_.group(), make,
                                                   model_->shared_reducer());
}

/// Null where no step is recorded.
std::unique_ptr<tensor::DeviceGraph> StepRunner::graph_of_steps() const {
  if (!config_.cuda_graph) return nullptr;
  std::string obstacle = graph_obstacle(config_, job_.device(), job_.world_size());
  if (obstacle.empty()) {
    if (auto graph = tensor::make_device_graph()) return graph;
    obstacle = "this build of Lockstep has no CUDA";
  }
  if (job_.is_main()) log::note("cuda_graph is true, and steps are computed without one: {}", obstacle);
  return nullptr;
}

void StepRunner::record_steps(std::unique_ptr<tensor::DeviceGraph> graph) {
  const auto compute = [this](const Batch& batch) { return run_batch(batch, 1); };
  graph_.emplace(named_parameters_of(*model_), compute, std::move(graph));
}

double StepRunner::waited_s() const {
  double sum = 0;  // they wait one after another
  for (const DataLoader& loader : loaders_) sum += loader.waited_s();
  return sum;
}

double StepRunner::wait_share(double seconds) {
  const double waited = waited_s() - std::exchange(reported_wait_s_, waited_s());
  const at::Tensor share = at::full({1}, seconds > 0 ? waited / seconds : 0, at::kDouble);
  job_.group().all_reduce(share, {.op = ReduceOp::kMax}).wait();
  return share.item<double>();
}

std::vector<std::int64_t> StepRunner::bad_samples() const {
  std::vector<std::int64_t> indices;
  for (const DataLoader& loader : loaders_) {
    for (const BadSample& bad : loader.bad_samples()) indices.push_back(bad.index);
  }
  return indices;
}

void StepRunner::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  epoch_ = epoch;
  passes_.clear();
  for (DataLoader& loader : loaders_) passes_.push_back(loader.epoch(epoch, first_batch));
}

void StepRunner::load_weights(const StateDict& state) {
  load_model_state_dict(model_->module().net(), state);
  synced_ = false;
}

const std::vector<at::Tensor>& StepRunner::compute_gradients(std::int64_t batches) {
  sync_buffers();
  synced_ = false;
  before_ = std::exchange(
      now_, {.epoch = epoch_, .first_batch = -1, .losses = std::vector<at::Tensor>(loaders_.size()), .rows = {}});
  now_.rows.resize(loaders_.size());
  images_ = 0;
  team_.run([&](Replica& replica) { run_replica(replica, batches); });
  return now_.losses;
}

void StepRunner::run_replica(Replica& replica, std::int64_t batches) {
  const double share = 1.0 / static_cast<double>(batches);
  for (std::int64_t i = 0; i < batches; ++i) {
    Batch* batch = passes_[static_cast<std::size_t>(replica.local())].next();
    if (batch == nullptr) throw InternalError("the loader has fewer batches than the plan");
    if (now_.first_batch < 0) now_.first_batch = batch->step;
    images_ += batch->size;
    batch_ = batch_holders(*batch);
    prepare_batch(*batch, job_.device(), config_.channels_last);
    const at::Tensor loss = run_or_keep(replica, *batch, share, i + 1 == batches);
    at::Tensor& sum = now_.losses[static_cast<std::size_t>(replica.local())];
    sum = sum.defined() ? sum + loss : loss;
    now_.rows[static_cast<std::size_t>(replica.local())].push_back(loss);
  }
}

at::Tensor StepRunner::run_or_keep(Replica& replica, Batch& batch, double share, bool last) {
  const std::uint64_t seed = batch_seed(config_, replica.index(), epoch_ * batches_per_epoch() + batch.step);
  try {
    return graph_ ? graph_->run(batch, seed) : run_seeded(batch, seed, share, last);
  } catch (const DataError& fault) {
    failed_ = Failed{replica.index(), std::move(batch), fault.message()};
    throw;
  }
}

/// `last`: of the batches whose gradients are added up; its backward reduces them.
at::Tensor StepRunner::run_seeded(const Batch& batch, std::uint64_t seed, double share, bool last) {
  seed_all(seed);
  if (last) return run_batch(batch, share);
  const NoSync local = model_->no_sync();
  return run_batch(batch, share);
}

at::Tensor StepRunner::run_batch(const Batch& batch, double share) {
  Outputs outputs;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(config_.amp));
    outputs = model_->forward(batch);
  }
  const std::vector<LossTerm> terms = fault::in_section("loss", [&] { return task_.loss_terms(outputs, batch); });
  if (loss_names_.empty()) loss_names_ = train::loss_names(terms);
  require_same_names(loss_names_, train::loss_names(terms));
  const at::Tensor loss = total_loss(terms);
  fault::in_section("backward", [&] { scaler_.scale(share == 1 ? loss : loss * share).backward(); });
  const at::Tensor row = loss_row(loss, terms);
  return share == 1 ? row : row * share;
}

std::filesystem::path StepRunner::remake_and_keep(const Taken& taken, std::size_t local, std::int64_t step,
                                                  const std::filesystem::path& folder) {
  const int replica = block().begin + static_cast<int>(local);
  DataLoaderOptions options = loader_options(config_, task_, {replica, replicas_}, c10::kCPU);
  options.workers = 0;
  DataLoader loader(loaders_[local].dataset(), options);
  // Of the batches that were added up, the first that was not finite.
  const std::vector<at::Tensor>& rows = taken.rows[local];
  const auto bad = std::find_if(rows.begin(), rows.end(),
                                [](const at::Tensor& row) { return !std::isfinite(row[0].item<double>()); });
  DataLoader::Epoch pass = loader.epoch(taken.epoch, taken.first_batch + (bad == rows.end() ? 0 : bad - rows.begin()));
  const Batch* batch = pass.next();
  return write_bad_batch(
      task_, *loader.dataset(), *batch,
      {.step = step, .replica = replica, .fault = fmt::format("loss {}", taken.losses[local][0].item<double>())},
      folder);
}

std::vector<std::filesystem::path> StepRunner::keep_bad_batches(std::int64_t step, std::int64_t ago,
                                                                const std::filesystem::path& folder) {
  const NoGrad no_grad;
  std::vector<std::filesystem::path> kept;
  if (failed_) {
    kept.push_back(write_bad_batch(task_, *loaders_.front().dataset(), failed_->batch,
                                   {.step = step, .replica = failed_->replica, .fault = failed_->fault}, folder));
    return kept;
  }
  const Taken& taken = ago == 0 ? now_ : before_;
  for (std::size_t local = 0; local < taken.losses.size(); ++local) {
    const at::Tensor& loss = taken.losses[local];
    if (!loss.defined() || std::isfinite(loss[0].item<double>())) continue;
    kept.push_back(remake_and_keep(taken, local, step, folder));
  }
  return kept;
}

/// The norm that clipping needs is of the gradients as they were reduced, and each rank has all of them.
bool StepRunner::norm_is_counted() const {
  return config_.clip_norm > 0 && !config_.optimizer.zero && !scaler_.is_enabled();
}

bool StepRunner::update(double lr) {
  if (scaler_.is_enabled()) {
    scaler_.unscale_(*optimizer_, own_gradients(*optimizer_));
    // Read before the update is queued, where step() waits for the device in any case.
    loss_scale_ = scaler_.get_scale();
  }
  if (config_.clip_value > 0) clip_grad_value(own_gradients(*optimizer_), config_.clip_value);
  double factor = 1.0;
  if (config_.clip_norm > 0) {
    const double norm = norm_is_counted() ? model_->grad_norm() : optimizer_->grad_norm();
    factor = clip_factor(norm, config_.clip_norm);
  }
  optimizer_->set_lr(lr);
  const bool stepped = scaler_.step(*optimizer_, factor);
  scaler_.update();
  optimizer_->zero_grad();
  return stepped;
}

void StepRunner::sync_buffers() {
  if (!synced_) model_->sync_buffers();
  synced_ = true;
}

std::vector<Holder> StepRunner::memory_holders() const {
  std::vector<Holder> found = batch_;
  if (!optimizer_) return found;
  const std::vector<Holder> kept = holders(model_->module().net(), *optimizer_);
  found.insert(found.end(), kept.begin(), kept.end());
  return found;
}

// Every replica has as many samples as every other.
std::int64_t StepRunner::images() const { return images_ / block().size() * replicas_; }

}  // namespace lockstep::train
