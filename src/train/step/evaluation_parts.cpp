// SPDX-License-Identifier: Apache-2.0
#include "train/step/evaluation_parts.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/comm/tree_sum.h"
#include "lockstep/tensor/random.h"

namespace lockstep::train {
namespace {

constexpr std::uint64_t kStream = 0x6576616c75617465;  // separates the numbers of evaluations from those of training

}  // namespace

EvalMode::EvalMode(torch::nn::Module& model) : model_(model), was_training_(model.is_training()) {
  for (const auto& module : model_.modules(/*include_self=*/false)) others_.emplace_back(module, module->is_training());
  model_.eval();
}

EvalMode::~EvalMode() {
  model_.train(was_training_);
  for (const auto& [module, was_training] : others_) {
    if (module->is_training() != was_training) module->train(was_training);
  }
}

BatchSeeds::BatchSeeds(const c10::Device& device, std::uint64_t seed) : seed_(seed ^ kStream), kept_(device) {}

void BatchSeeds::begin(int part, std::int64_t number) const {
  const std::uint64_t stream = stream_seed(seed_, static_cast<std::uint64_t>(part));
  seed_all(stream_seed(stream, static_cast<std::uint64_t>(number)));
}

std::int64_t on_some_rank(ProcessGroup& group, std::int64_t own) {
  const at::Tensor largest = at::full({1}, own, at::kLong);
  group.all_reduce(largest, {.op = ReduceOp::kMax}).wait();
  if (largest.item<std::int64_t>() == 0) throw DataError("there is no sample to evaluate");
  return largest.item<std::int64_t>();
}

at::Tensor sum_over_parts(ProcessGroup& group, std::vector<at::Tensor> counts, ReplicaSpan block, int parts) {
  // A part without samples does not know how many counts there are, so the longest row determines that.
  std::int64_t longest = 0;
  for (const at::Tensor& each : counts) longest = std::max(longest, each.defined() ? each.numel() : 0);
  const std::int64_t length = on_some_rank(group, longest);
  for (at::Tensor& each : counts) {
    if (!each.defined()) each = at::zeros({length}, at::kDouble);
    if (each.numel() == length) continue;
    throw UsageError(
        fmt::format("an evaluation returned {} numbers for one batch and {} for another", each.numel(), length),
        "return the same count for every batch");
  }
  const at::Tensor sums = partial_sums(counts, block, parts);
  group.all_reduce(sums, {.replicas = parts}).wait();
  return sums[0].clone();
}

}  // namespace lockstep::train
