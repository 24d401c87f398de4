// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_guard.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>
#include <variant>
#include <vector>

#include "lockstep/optim/tensor_digest.h"
#include "lockstep/parallel/replica_replay.h"
#include "lockstep/train/prepare.h"

namespace lockstep::train {
namespace {

NamedTensors floating_tensors(const StateDict& state) {
  NamedTensors found;
  for (const auto& [name, value] : state) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor != nullptr && tensor->is_floating_point()) found.emplace_back(name, *tensor);
  }
  return found;
}

}  // namespace

NamedTensors optimizer_tensors(WeightUpdate& weights) {
  return floating_tensors(weights.optimizer().state_part(/*rank=*/0, /*world_size=*/1).entries);
}

void StepGuard::build(DistributedDataParallel<TaskNet>& model) {
  model_ = &model;
  if (parts_.config.guard <= 0) return;
  const auto replicas = static_cast<int>(parts_.config.replicas);
  guard_.emplace(job_, parts_.config.guard, replicas, named_parameters_of(model), [this] { return equal_state(); });
}

bool StepGuard::begin(std::int64_t step) {
  return guard_ && guard_->begin(step, named_buffers_of(model_->module().net()));
}

void StepGuard::enter(int replica) {
  if (guard_) guard_->enter(replica);
}

void StepGuard::finish(std::int64_t first_batch, std::int64_t batches) {
  first_batch_ = first_batch;
  batches_ = batches;
  guard_->finish([this](int replica, const std::string& reductions) { return compute_again(replica, reductions); });
}

void StepGuard::compare_state(std::int64_t step) {
  if (guard_) guard_->compare_state(step);
}

NamedTensors StepGuard::equal_state() {
  NamedTensors tensors = parts_.config.optimizer.zero ? NamedTensors{} : optimizer_tensors(parts_.weights);
  if (!average_) return tensors;
  for (const auto& [name, value] : floating_tensors(average_())) tensors.emplace_back("average." + name, value);
  return tensors;
}

std::uint64_t StepGuard::compute_again(int replica, const std::string& reductions) {
  const NamedTensors buffers = named_buffers_of(model_->module().net());
  NamedTensors after = buffers;
  for (auto& [name, tensor] : after) tensor = tensor.detach().clone();
  const auto set = [&buffers](const NamedTensors& values) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].second.copy_(values[i].second);
  };
  set(guard_->buffers());
  std::uint64_t sum = 0;
  parallel::replay_replica(parts_.team, replica, reductions, [&] {
    parts_.data.make_again(replica, first_batch_, batches_, [&](Batch& batch) { sum += batch_again(batch, replica); });
  });
  set(after);
  return sum;
}

/// autograd::grad() leaves grad() and the reducer's hooks alone.
std::uint64_t StepGuard::batch_again(Batch& batch, int replica) {
  prepare_batch(batch, job_.device(), parts_.config.channels_last);
  const BatchLoss loss = parts_.pass.loss_again(replica, batch);
  NamedTensors learnt = named_parameters_of(*model_);
  std::erase_if(learnt, [](const auto& one) { return !one.second.requires_grad(); });
  std::vector<at::Tensor> inputs;
  for (const auto& item : learnt) inputs.push_back(item.second);
  const auto gradients = torch::autograd::grad({loss.scaled}, inputs, {}, {}, false, /*allow_unused=*/true);
  std::uint64_t sum = row_digest(loss.row);
  for (std::size_t i = 0; i < learnt.size(); ++i) sum += optim::digest_of(gradients[i], learnt[i].first);
  return sum;
}

}  // namespace lockstep::train
