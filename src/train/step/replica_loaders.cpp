// SPDX-License-Identifier: Apache-2.0
#include "train/step/replica_loaders.h"

#include <ATen/ops/full.h>

#include <utility>

#include "lockstep/base/error.h"
#include "train/plan/skipped_samples.h"

namespace lockstep::train {
ReplicaLoaders::ReplicaLoaders(Job job, const Task& task, const TrainConfig& config, ReplicaSpan block)
    : job_(std::move(job)), task_(task), config_(config), block_(block) {}

DataLoaderOptions ReplicaLoaders::options(int replica, c10::Device device) const {
  const bool pinned = config_.pin_memory && device.is_cuda();
  return {.batch_size = config_.batch_size,
          .workers = config_.workers,
          .prefetch_factor = config_.prefetch_factor,
          .persistent_workers = config_.persistent_workers,
          .shuffle = !sampler_,
          .drop_last = config_.drop_last,
          .seed = static_cast<std::uint64_t>(config_.seed),
          .shard = {replica, static_cast<int>(config_.replicas)},
          .sampler = sampler_,
          .bad_samples = config_.bad_samples == "skip" ? BadSamples::kSkip : BadSamples::kError,
          .timeout_s = config_.loader_timeout_s,
          .note_waiting = false,  // the step report already shows the waits and their cause
          .pin_memory = pinned,
          .device = pinned ? device : c10::Device(c10::kCPU),
          .collate = task_.collate()};
}

void ReplicaLoaders::open(const std::shared_ptr<Dataset>& dataset) {
  if (const SkippedSamples skipped(config_.data.skipped_samples); !skipped.empty()) {
    skipped.require_enough(dataset->size(), config_.replicas);
    const OrderShape shape{.seed = static_cast<std::uint64_t>(config_.seed),
                           .size = dataset->size(),
                           .samples_of_step = config_.batch_size * config_.replicas};
    sampler_ = std::make_shared<SkippingSampler>(shape, config_.replicas, skipped);
  }
  for (int replica = block_.begin; replica < block_.end; ++replica) {
    loaders_.emplace_back(dataset, options(replica, job_.device()));
  }
}

void ReplicaLoaders::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  epoch_ = epoch;
  passes_.clear();
  for (DataLoader& loader : loaders_) passes_.push_back(loader.epoch(epoch, first_batch));
}

Batch& ReplicaLoaders::next(std::size_t local) {
  if (!first_batches_.empty()) {
    Repeated& repeated = first_batches_[local];
    if (!repeated.first) repeated.first = load(local);
    return repeated.lent = *repeated.first;
  }
  return load(local);
}

Batch& ReplicaLoaders::load(std::size_t local) {
  Batch* batch = passes_[local].next();
  if (batch == nullptr) throw InternalError("the loader has fewer batches than the plan");
  return *batch;
}

void ReplicaLoaders::look_again(std::size_t local, std::int64_t epoch, std::int64_t number,
                                const std::function<void(const Batch&)>& look) const {
  DataLoaderOptions again = options(block_.begin + static_cast<int>(local), c10::kCPU);
  again.workers = 0;
  DataLoader loader(loaders_[local].dataset(), again);
  DataLoader::Epoch pass = loader.epoch(epoch, number);
  look(*pass.next());
}

void ReplicaLoaders::make_again(int replica, std::int64_t first, std::int64_t count,
                                const std::function<void(Batch&)>& use) const {
  DataLoaderOptions again = options(replica, c10::kCPU);
  again.workers = 0;
  DataLoader loader(loaders_.front().dataset(), again);
  DataLoader::Epoch pass = loader.epoch(epoch_, first);
  for (std::int64_t i = 0; i < count; ++i) use(*pass.next());
}

double ReplicaLoaders::wait_share(double seconds) {
  double waited = 0;  // the sum, because the replicas wait one after another
  for (const DataLoader& loader : loaders_) waited += loader.waited_s();
  const double since = waited - std::exchange(reported_wait_s_, waited);
  const at::Tensor share = at::full({1}, seconds > 0 ? since / seconds : 0, at::kDouble);
  job_.group().all_reduce(share, {.op = ReduceOp::kMax}).wait();
  return share.item<double>();
}

std::vector<std::int64_t> ReplicaLoaders::bad_samples() const {
  std::vector<std::int64_t> indices;
  for (const DataLoader& loader : loaders_) {
    for (const BadSample& bad : loader.bad_samples()) indices.push_back(bad.index);
  }
  return indices;
}

}  // namespace lockstep::train
