// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_runner.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/tensor_digest.h"
#include "lockstep/parallel/replica_replay.h"
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

/// The seed of the random numbers (dropout) of one batch of one replica. It depends on nothing else, so that there is
/// no state to save.
std::uint64_t batch_seed(const TrainConfig& config, int replica, std::int64_t batch_number) {
  const std::uint64_t stream = stream_seed(seed_of(config), static_cast<std::uint64_t>(replica) + 1);
  return stream_seed(stream, static_cast<std::uint64_t>(batch_number));
}

std::vector<Holder> batch_holders(const Batch& batch) {
  std::vector<Holder> found = {{"batch.data", static_cast<std::int64_t>(batch.data.nbytes())}};
  if (batch.target.defined()) found.push_back({"batch.target", static_cast<std::int64_t>(batch.target.nbytes())});
  return found;
}

NamedTensors copies_of(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
  return tensors;
}

NamedTensors floating_tensors(const StateDict& state) {
  NamedTensors found;
  for (const auto& [name, value] : state) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor != nullptr && tensor->is_floating_point()) found.emplace_back(name, *tensor);
  }
  return found;
}

/// Null if no step is recorded.
std::unique_ptr<tensor::DeviceGraph> graph_of_steps(const TrainConfig& config, const Job& job, const Task& task) {
  const GraphPlace place = graph_place(job, task);
  std::string obstacle = graph_obstacle(config, place);
  if (obstacle.empty()) {
    if (auto graph = tensor::make_device_graph()) return graph;
    obstacle = cuda::library().obstacle.problem;
  }
  // `auto` is silent about obstacles that the user could not remove.
  const bool could_be = place.recordable && place.device.is_cuda() && (place.world_size == 1 || place.by_nccl);
  const bool is_news = config.cuda_graph == "true" || (config.cuda_graph == "auto" && could_be);
  if (is_news && job.is_main()) log::note("steps run without a CUDA graph: {}", obstacle);
  return nullptr;
}

}  // namespace

StepRunner::StepRunner(Job job, Task& task, const TrainConfig& config)
    : job_(std::move(job)),
      task_(task),
      config_(config),
      replicas_(static_cast<int>(config.replicas)),
      clock_(replicas_),
      team_(job_.group(), {.replicas = replicas_,
                           .threads = static_cast<int>(config.threads),
                           .on_switch =
                               [this](int local) {
                                 clock_.turn_to(local);
                                 if (guard_) guard_->enter(team_.block().begin + local);
                                 model_->enter_replica(local);
                               }}),
      data_(job_, task, config, team_.block()),
      weights_(job_, config),
      taken_(task, data_),
      fault_(job_) {}

std::shared_ptr<TaskNet> StepRunner::make_net() {
  seed_all(seed_of(config_));
  auto net = fault::in_section("make_model", [&] { return task_.make_model(); });
  if (config_.channels_last) use_channels_last(*net);
  if (config_.fused_layers) optimized_ = nn::optimize(*net);
  net->to(job_.device());
  net->train();
  return std::make_shared<TaskNet>(task_, std::move(net));
}

void StepRunner::build(const std::shared_ptr<TaskNet>& net) {
  if (config_.sync_batchnorm && sync_batch_norm(net->net(), job_) == 0 && job_.is_main()) {
    log::note("sync_batchnorm is true, but the network has no lockstep::nn::BatchNorm: it changes nothing");
  }
  // The model is made on the recorded stream, since it keeps gradient accumulators.
  std::unique_ptr<tensor::DeviceGraph> graph = graph_of_steps(config_, job_, task_);
  const std::shared_ptr<void> stream = graph ? graph->enter() : nullptr;
  // Buffers are broadcast once a step, below: a step then depends only on replica 0's, which are saved.
  model_.emplace(net, job_,
                 DdpOptions{.broadcast_buffers = false,
                            .replicas = replicas_,
                            .exact = config_.exact,
                            .first_bucket_bytes = kMiB,
                            .bucket_bytes = config_.bucket_cap_mb * kMiB,
                            .grad_norm = weights_.counts_norm()});
  weights_.build(job_, *model_);
  if (fault_.awaits("gradient")) {
    const at::Tensor& hit = named_parameters_of(*model_).front().second;
    hit.register_hook([this](const at::Tensor& gradient) {
      const at::Tensor changed = gradient.clone();
      fault_.strike("gradient", {changed});
      return changed;
    });
  }
  if (config_.guard > 0) {
    guard_.emplace(job_, config_.guard, replicas_, named_parameters_of(*model_), [this] { return equal_state(); });
  }
  if (!graph) return;
  StepGraphOptions options;
  options.automatic = config_.cuda_graph == "auto";
  options.job = job_;
  options.key = [this](const Batch& batch) {
    std::optional<std::string> key = task_.recording_key(batch);
    // The division and the reduction are in the recording.
    if (key) *key += fmt::format(" / {}{}", batches_, adds_up_ ? " adds up" : "");
    return key;
  };
  graph_.emplace(
      named_parameters_of(*model_), [this](const Batch& batch) { return run_batch(batch); }, std::move(options));
}

void StepRunner::load_weights(const StateDict& state) {
  load_model_state_dict(model_->module().net(), state);
  synced_ = false;
}

const std::vector<at::Tensor>& StepRunner::compute_gradients(std::int64_t batches) {
  sync_buffers();
  synced_ = false;
  if (weights_.scaler().is_enabled()) kept_buffers_ = copies_of(floating_buffers());
  taken_.begin();
  images_ = 0;
  batches_ = batches;
  NamedTensors buffers = named_buffers_of(model_->module().net());
  const bool guarded = guard_ && guard_->begin(fault::noted_step(), buffers);
  fault_.strike("weight", named_parameters_of(*model_));
  team_.run([&](Replica& replica) { run_replica(replica, batches); });
  if (guarded) {
    guard_->finish([this](int replica, const std::string& reductions) { return compute_again(replica, reductions); });
  }
  if (fault_.awaits("optimizer")) fault_.strike("optimizer", optimizer_tensors());
  return taken_.losses();
}

/// With ZeRO only this rank's part.
NamedTensors StepRunner::optimizer_tensors() {
  return floating_tensors(weights_.optimizer().state_part(/*rank=*/0, /*world_size=*/1).entries);
}

NamedTensors StepRunner::equal_state() {
  NamedTensors tensors = config_.optimizer.zero ? NamedTensors{} : optimizer_tensors();
  if (!average_) return tensors;
  for (const auto& [name, value] : floating_tensors(average_())) tensors.emplace_back("average." + name, value);
  return tensors;
}

void StepRunner::compare_state(std::int64_t step) {
  if (guard_) guard_->compare_state(step);
}

void StepRunner::run_replica(Replica& replica, std::int64_t batches) {
  const auto local = static_cast<std::size_t>(replica.local());
  std::optional<parallel::ReductionRecorder> recorder;
  if (guard_) guard_->enter(replica.index());
  if (guard_ && guard_->watches(replica.index())) recorder.emplace();
  for (std::int64_t i = 0; i < batches; ++i) {
    Batch& batch = data_.next(local);
    const std::int64_t number = batch.step;
    images_ += batch.size;
    batch_ = batch_holders(batch);
    if (i == 0) first_batch_ = number;
    fault_.strike("batch", {batch.data});
    prepare_batch(batch, job_.device(), config_.channels_last);
    // Without buckets every backward works like the last one.
    adds_up_ = i + 1 < batches && !(graph_ && job_.world_size() == 1);
    try {
      const at::Tensor row = compute(replica, batch);
      taken_.add(local, number, row);
      if (recorder) guard_->add(row, recorder->bytes());
    } catch (const DataError& fault) {
      taken_.fail(replica.index(), std::move(batch), fault.message());
      throw;
    }
  }
}

at::Tensor StepRunner::compute(Replica& replica, Batch& batch) {
  const WatchedBatch watched{
      .replica = replica.index(), .batch = batch, .model = model_->module().net(), .dataset = data_.dataset()};
  if (watch_ != nullptr) watch_->on_batch(watched);
  const std::uint64_t seed = seed_of_batch(replica.index(), batch.step);
  at::Tensor row;
  if (graph_) {
    row = graph_->run(batch, seed);
    note_fallback();
  } else {
    seed_all(seed);
    row = run_batch(batch);
  }
  if (watch_ != nullptr) watch_->on_batch_done(watched, row);
  return row;
}

void StepRunner::note_fallback() {
  if (!graph_ || graph_->fallback() == noted_) return;
  noted_ = graph_->fallback();
  if (job_.is_main()) log::note("steps run without a CUDA graph: {}", noted_);
}

/// An undefined target makes libtorch's losses fail with words that name no data set.
std::vector<LossTerm> StepRunner::loss_terms(const Outputs& outputs, const Batch& batch) {
  try {
    return fault::in_section("loss", [&] { return task_.loss_terms(outputs, batch); });
  } catch (const c10::Error& error) {
    if (batch.target.defined()) throw;
    const std::string why = error.what_without_backtrace();
    throw UsageError(fmt::format("the loss failed on samples that have no target: {}", text::first_line(why)),
                     "give each sample of the data set a target, or write a loss that uses batch.data alone");
  }
}

at::Tensor StepRunner::run_batch(const Batch& batch) {
  const double share = 1.0 / static_cast<double>(batches_);
  if (!adds_up_) return run_batch(batch, share);
  const NoSync adds_up = model_->no_sync();
  return run_batch(batch, share);
}

at::Tensor StepRunner::run_batch(const Batch& batch, double share) {
  Outputs outputs;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(config_.amp));
    outputs = model_->forward(batch);
  }
  const BatchLoss loss = loss_of(std::move(outputs), batch, share);
  fault::in_section("backward", [&] { loss.scaled.backward(); });
  return loss.row;
}

StepRunner::BatchLoss StepRunner::loss_of(Outputs outputs, const Batch& batch, double share) {
  if (fault_.awaits("activation")) {
    for (const auto& item : outputs) fault_.strike("activation", {item.second});
  }
  const std::vector<LossTerm> terms = loss_terms(outputs, batch);
  if (loss_names_.empty()) loss_names_ = train::loss_names(terms);
  require_same_names(loss_names_, train::loss_names(terms));
  const at::Tensor loss = total_loss(terms);
  const at::Tensor row = loss_row(loss, terms);
  return {.scaled = weights_.scaler().scale(share == 1 ? loss : loss * share), .row = share == 1 ? row : row * share};
}

std::uint64_t StepRunner::compute_again(int replica, const std::string& reductions) {
  const NamedTensors buffers = named_buffers_of(model_->module().net());
  const NamedTensors after = copies_of(buffers);
  const auto set = [&buffers](const NamedTensors& values) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].second.copy_(values[i].second);
  };
  set(guard_->buffers());
  std::uint64_t sum = 0;
  parallel::replay_replica(team_, replica, reductions, [&] {
    data_.make_again(replica, first_batch_, batches_, [&](Batch& batch) { sum += batch_again(batch, replica); });
  });
  set(after);
  return sum;
}

/// autograd::grad() leaves grad() and the reducer's hooks alone.
std::uint64_t StepRunner::batch_again(Batch& batch, int replica) {
  const std::int64_t number = batch.step;
  prepare_batch(batch, job_.device(), config_.channels_last);
  seed_all(seed_of_batch(replica, number));
  Outputs outputs;
  {
    const Autocast autocast(job_.device().type(), amp_from_name(config_.amp));
    outputs = model_->module().forward(batch);
  }
  const BatchLoss loss = loss_of(std::move(outputs), batch, 1.0 / static_cast<double>(batches_));
  NamedTensors learnt = named_parameters_of(*model_);
  std::erase_if(learnt, [](const auto& one) { return !one.second.requires_grad(); });
  std::vector<at::Tensor> inputs;
  for (const auto& item : learnt) inputs.push_back(item.second);
  const auto gradients = torch::autograd::grad({loss.scaled}, inputs, {}, {}, false, /*allow_unused=*/true);
  std::uint64_t sum = row_digest(loss.row);
  for (std::size_t i = 0; i < learnt.size(); ++i) sum += optim::digest_of(gradients[i], learnt[i].first);
  return sum;
}

std::uint64_t StepRunner::seed_of_batch(int replica, std::int64_t number) const {
  return batch_seed(config_, replica, data_.epoch() * data_.batches_per_epoch() + number);
}

void StepRunner::sync_buffers() {
  const StepClock::Stay communicates(clock_, view::StepPart::kExposed);
  if (!synced_) model_->sync_buffers();
  synced_ = true;
}

NamedTensors StepRunner::floating_buffers() {
  NamedTensors buffers = named_buffers_of(model_->module().net());
  std::erase_if(buffers, [](const auto& one) { return !one.second.is_floating_point(); });
  return buffers;
}

void StepRunner::restore_buffers() {
  if (kept_buffers_.empty()) return;
  sync_buffers();
  const NamedTensors buffers = floating_buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor& buffer = buffers[i].second;
    buffer.copy_(at::where(at::isfinite(buffer), buffer, kept_buffers_[i].second));
  }
  synced_ = false;  // other replicas of this rank still have the earlier values
}

std::vector<Holder> StepRunner::memory_holders() const {
  std::vector<Holder> found = batch_;
  if (!weights_.has_optimizer()) return found;
  const std::vector<Holder> kept = holders(model_->module().net(), weights_.optimizer());
  found.insert(found.end(), kept.begin(), kept.end());
  return found;
}

// Every replica has the same number of samples.
std::int64_t StepRunner::images() const { return images_ / team_.block().size() * replicas_; }

}  // namespace lockstep::train
