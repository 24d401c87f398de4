// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_runner.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/parallel/replica_replay.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"
#include "train/settings/graph_choice.h"
#include "train/step/bad_batch.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::vector<Holder> batch_holders(const Batch& batch) {
  std::vector<Holder> found = {{"batch.data", static_cast<std::int64_t>(batch.data.nbytes())}};
  if (batch.target.defined()) found.push_back({"batch.target", static_cast<std::int64_t>(batch.target.nbytes())});
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
  // `auto` does not report obstacles that the user can do nothing about.
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
                                 clock_.clock().turn_to(local);
                                 guard_.enter(team_.block().begin + local);
                                 model_->enter_replica(local);
                               }}),
      data_(job_, task, config, team_.block()),
      weights_(job_, config),
      taken_(task, data_),
      fault_(job_),
      pass_(job_, {.task = task, .config = config, .data = data_, .weights = weights_, .fault = fault_}),
      buffers_(clock_.clock()),
      guard_(job_, {.config = config, .pass = pass_, .data = data_, .team = team_, .weights = weights_}) {}

std::shared_ptr<TaskNet> StepRunner::make_net() {
  seed_all(static_cast<std::uint64_t>(config_.seed));
  auto net = fault::in_section("make_model", [&] { return task_.make_model(); });
  if (config_.channels_last) use_channels_last(*net);
  if (config_.fused_layers) optimized_ = nn::optimize(*net);
  net->to(job_.device());
  net->train();
  return std::make_shared<TaskNet>(task_, std::move(net));
}

void StepRunner::build(const std::shared_ptr<TaskNet>& net) {
  if (config_.sync_batchnorm && sync_batch_norm(net->net(), job_) == 0 && job_.is_main()) {
    log::note("sync_batchnorm is true, but the network has no lockstep::nn::BatchNorm: it has no effect");
  }
  // The model is created on the stream that is recorded, since it keeps gradient accumulators.
  std::unique_ptr<tensor::DeviceGraph> graph = graph_of_steps(config_, job_, task_);
  const std::shared_ptr<void> stream = graph ? graph->enter() : nullptr;
  // Buffers are broadcast once per step, below: a step then depends only on replica 0's, which are saved.
  model_.emplace(net, job_,
                 DdpOptions{.broadcast_buffers = false,
                            .replicas = replicas_,
                            .exact = config_.exact,
                            .first_bucket_bytes = kMiB,
                            .bucket_bytes = config_.bucket_cap_mb * kMiB,
                            .grad_norm = weights_.counts_norm()});
  weights_.build(job_, *model_);
  if (fault_.awaits("gradient")) {
    const at::Tensor hit = named_parameters_of(*model_).front().second;
    struck_.emplace(hit, [this](const at::Tensor& gradient) {
      const at::Tensor changed = gradient.clone();
      fault_.strike("gradient", {changed});
      return changed;
    });
  }
  buffers_.build(*model_);
  guard_.build(*model_);
  pass_.build(*model_, std::move(graph));
}

const std::vector<at::Tensor>& StepRunner::compute_gradients(std::int64_t batches) {
  buffers_.sync();
  buffers_.begin(weights_.scaler().is_enabled());
  taken_.begin();
  images_ = 0;
  pass_.begin(batches);
  const bool is_guarded = guard_.begin(fault::noted_step());
  fault_.strike("weight", named_parameters_of(*model_));
  team_.run([&](Replica& replica) { run_replica(replica, batches); });
  if (is_guarded) guard_.finish(first_batch_, batches);
  if (fault_.awaits("optimizer")) fault_.strike("optimizer", optimizer_tensors(weights_));
  return taken_.losses();
}

void StepRunner::run_replica(Replica& replica, std::int64_t batches) {
  const auto local = static_cast<std::size_t>(replica.local());
  std::optional<parallel::ReductionRecorder> recorder;
  guard_.enter(replica.index());
  if (guard_.watches(replica.index())) recorder.emplace();
  for (std::int64_t i = 0; i < batches; ++i) {
    Batch& batch = data_.next(local);
    const std::int64_t number = batch.step;
    images_ += batch.size;
    batch_ = batch_holders(batch);
    if (i == 0) first_batch_ = number;
    fault_.strike("batch", {batch.data});
    prepare_batch(batch, job_.device(), config_.channels_last);
    try {
      const at::Tensor row = pass_.run(replica, batch, /*is_last=*/i + 1 == batches);
      taken_.add(local, number, row);
      if (recorder) guard_.add(row, recorder->bytes());
    } catch (const DataError& fault) {
      taken_.fail(replica.index(), std::move(batch), fault.message());
      throw;
    }
  }
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
