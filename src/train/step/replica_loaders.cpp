// SPDX-License-Identifier: Apache-2.0
#include "train/step/replica_loaders.h"

#include <ATen/ops/full.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

DataLoaderOptions loader_options(const TrainConfig& config, const Task& task, const ShardSpec& shard,
                                 c10::Device device) {
  const bool pinned = config.pin_memory && device.is_cuda();
  return {.batch_size = config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .persistent_workers = config.persistent_workers,
          .shuffle = true,
          .drop_last = config.drop_last,
          .seed = static_cast<std::uint64_t>(config.seed),
          .shard = shard,
          .bad_samples = config.bad_samples == "skip" ? BadSamples::kSkip : BadSamples::kError,
          .timeout_s = config.loader_timeout_s,
          .note_waiting = false,  // the step report says it, and why
          .pin_memory = pinned,
          .device = pinned ? device : c10::Device(c10::kCPU),
          .collate = task.collate()};
}

}  // namespace

ReplicaLoaders::ReplicaLoaders(Job job, const Task& task, const TrainConfig& config, ReplicaSpan block)
    : job_(std::move(job)), task_(task), config_(config), block_(block) {}

void ReplicaLoaders::open(const std::shared_ptr<Dataset>& dataset) {
  for (int replica = block_.begin; replica < block_.end; ++replica) {
    const ShardSpec shard{replica, static_cast<int>(config_.replicas)};
    loaders_.emplace_back(dataset, loader_options(config_, task_, shard, job_.device()));
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
  const ShardSpec shard{block_.begin + static_cast<int>(local), static_cast<int>(config_.replicas)};
  DataLoaderOptions options = loader_options(config_, task_, shard, c10::kCPU);
  options.workers = 0;
  DataLoader loader(loaders_[local].dataset(), options);
  DataLoader::Epoch pass = loader.epoch(epoch, number);
  look(*pass.next());
}

void ReplicaLoaders::make_again(int replica, std::int64_t first, std::int64_t count,
                                const std::function<void(Batch&)>& use) const {
  const ShardSpec shard{replica, static_cast<int>(config_.replicas)};
  DataLoaderOptions options = loader_options(config_, task_, shard, c10::kCPU);
  options.workers = 0;
  DataLoader loader(loaders_.front().dataset(), options);
  DataLoader::Epoch pass = loader.epoch(epoch_, first);
  for (std::int64_t i = 0; i < count; ++i) use(*pass.next());
}

double ReplicaLoaders::wait_share(double seconds) {
  double waited = 0;  // the replicas wait one after another
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
