// SPDX-License-Identifier: Apache-2.0
#include "train/setup/batch_probe.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/tensor/device_memory.h"
#include "lockstep/train/prepare.h"
#include "train/settings/graph_choice.h"
#include "train/settings/optimizer_choice.h"
#include "train/step/out_of_memory.h"
#include "train/task/loss_terms.h"

namespace lockstep::train {
namespace {

// Only the second step has the optimizer state from the start.
constexpr int kSteps = 2;
// Trial batches repeat this many samples, because memory does not depend on their content, and reading thousands of
// samples for each trial would take too long.
constexpr std::int64_t kSamples = 64;

ProcessGroup& group_of_one(const Job& job, const std::shared_ptr<ProcessGroup>& alone) {
  return alone ? *alone : job.group();
}

ReplicaSpan block_of(const Job& job, const TrainConfig& config) {
  return replicas_of_rank(job.rank(), job.world_size(), static_cast<int>(config.replicas));
}

/// Returns samples spread over the whole set.
std::vector<Sample> some_samples(Dataset& dataset, std::int64_t seed) {
  const std::int64_t count = std::min(dataset.size(), kSamples);
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * dataset.size() / count;
    SampleContext context(static_cast<std::uint64_t>(seed), 0, index);
    samples.push_back(dataset.get(index, context));
  }
  return samples;
}

std::int64_t bytes_of(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

NamedTensors trained_parameters(TaskNet& net) {
  NamedTensors trained;
  for (const auto& [name, parameter] : named_parameters_of(net)) {
    if (parameter.requires_grad()) trained.emplace_back(name, parameter);
  }
  return trained;
}

}  // namespace

int gradient_copies(int rank, int world, int replicas) {
  const ReplicaSpan block = replicas_of_rank(rank, world, replicas);
  if (world == 1 && block.size() == 1) return 0;
  std::size_t most = 0;
  std::vector<ReplicaSpan> stack;
  for (int replica = block.begin; replica < block.end; ++replica) {
    stack = push_replica(stack, replica, replicas);
    most = std::max(most, stack.size());
  }
  return static_cast<int>(most);
}

std::int64_t trial_size(const TrainConfig& config, const GraphPlace& place, std::int64_t batch) {
  return graph_obstacle(config, place).empty() ? 2 * batch : batch;
}

NamedTensors share_of(const NamedTensors& parameters, int ranks) {
  std::int64_t all = 0;
  for (const auto& [name, parameter] : parameters) all += parameter.numel();
  NamedTensors share;
  std::int64_t held = 0;
  for (const auto& entry : parameters) {
    if (held * ranks >= all) break;
    share.push_back(entry);
    held += entry.second.numel();
  }
  return share;
}

BatchProbe::BatchProbe(const Untried& run)
    : run_(run),
      alone_(run.job.world_size() > 1 ? run.job.group().split(run.job.rank()) : nullptr),
      team_(group_of_one(run.job, alone_),
            {.replicas = block_of(run.job, run.config).size(), .threads = static_cast<int>(run.config.threads)}),
      samples_(some_samples(*run.dataset, run.config.seed)) {}

bool BatchProbe::fits(std::int64_t batch) {
  bool fit = true;
  try {
    // Steps of the two stages may need different amounts of memory.
    for (const std::int64_t stage : {1, 2}) {
      if (stage == 2 && !run_.config.has_second_stage()) continue;
      run_.task.begin_epoch({.epoch = 0, .stage = stage});
      train(trial_size(run_.config, graph_place(run_.job, run_.task), batch));
    }
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    problem_ = text::without_backtrace(error.what());
    fit = false;
  }
  // Otherwise cached blocks of this trial would fragment the memory of the next trial.
  if (run_.job.device().is_cuda()) tensor::forget_memory(run_.job.device().index());
  return fit;
}

void BatchProbe::train(std::int64_t batch) {
  const std::shared_ptr<TaskNet> net = run_.make_net();
  const NamedTensors parameters = trained_parameters(*net);
  const int copies = gradient_copies(run_.job.rank(), run_.job.world_size(), static_cast<int>(run_.config.replicas));
  const int average = run_.config.ema.decay > 0 ? 1 : 0;
  const at::Tensor other_memory =
      at::empty({bytes_of(parameters) * (copies + average)}, at::TensorOptions(run_.job.device()).dtype(at::kByte));
  if (run_.config.sync_batchnorm) sync_batch_norm(net->net(), group_of_one(run_.job, alone_));
  OptimizerConfig same_memory = run_.config.optimizer;
  same_memory.groups.clear();  // the patterns may not match any parameter of this part
  const auto optimizer =
      make_optimizer(same_memory, share_of(parameters, run_.config.optimizer.zero ? run_.job.world_size() : 1));
  // From the second batch of a step, gradients exist during the forward pass. A third batch needs no more memory.
  const int batches = run_.config.accumulate_steps > 1 ? 2 : 1;
  for (int step = 0; step < kSteps; ++step) {
    team_.run([&](Replica&) { train_replica(*net, batch, batches); });
    optimizer->step();
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
  }
}

void BatchProbe::train_replica(TaskNet& net, std::int64_t size, int batches) {
  at::Tensor loss;
  for (int i = 0; i < batches; ++i) {
    Batch batch = make_batch(size);
    prepare_batch(batch, run_.job.device(), run_.config.channels_last);
    Outputs outputs;
    {
      const Autocast autocast(run_.job.device().type(), amp_from_name(run_.config.amp));
      outputs = net.forward(batch);
    }
    loss = total_loss(run_.task.loss_terms(outputs, batch));
    loss.backward();
  }
  (void)loss.item();  // the host waits, so that a device error appears in this trial
}

Batch BatchProbe::make_batch(std::int64_t size) const {
  const auto repeated = make_dataset(size, [&samples = samples_](std::int64_t index) {
    return samples[static_cast<std::size_t>(index) % samples.size()];
  });
  const bool pinned = run_.config.pin_memory && run_.job.device().is_cuda();
  DataLoader loader(repeated, {.batch_size = size, .pin_memory = pinned, .collate = run_.task.collate()});
  DataLoader::Epoch pass = loader.epoch(0);
  return std::move(*pass.next());
}

}  // namespace lockstep::train
