// SPDX-License-Identifier: Apache-2.0
// A small problem with everything that could make two runs differ: dropout, batch norm, and a buffer that is read in
// training.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/data/sample_random.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/trainer.h"

namespace lockstep::test {

class NoisyNet final : public torch::nn::Module {
 public:
  NoisyNet() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
    level = register_buffer("level", at::zeros({16}));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = norm(first(x)).relu();
    // Unlike batch norm's buffers, this buffer affects the output in training.
    if (is_training()) level.mul_(0.9).add_(hidden.detach().mean(0), 0.1);
    return last(at::dropout(hidden - level, 0.3, is_training()));
  }

 private:
  torch::nn::Linear first{2, 16};
  nn::BatchNorm1d norm{16};
  torch::nn::Linear last{16, 1};
  at::Tensor level;
};

/// Learns the product of two numbers from `size` noisy samples. `shifted`: with one sample changed.
class NoisyTask final : public Task {
 public:
  explicit NoisyTask(std::int64_t size = 67, std::int64_t shifted = -1) : size_(size), shifted_(shifted) {}

  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(size_, [shifted = shifted_](std::int64_t i, SampleContext& context) {
      const double noise = context.random.uniform(-0.01, 0.01);  // an augmentation: different in each epoch
      const double x = static_cast<double>((i * 37) % 67) / 30 - 1 + (i == shifted ? 0.5 : 0) + noise;
      const double y = static_cast<double>((i * 17) % 67) / 30 - 1;
      return Sample{at::tensor({x, y}, at::kFloat), at::full({1}, x * y)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<NoisyNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    if (on_forward) on_forward(++forwards_);
    return dynamic_cast<NoisyNet&>(model).forward(batch.data);
  }
  /// Divides by the sum of squares over all replicas, so that there is a collective between forward and backward.
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    const at::Tensor squares = batch.target.detach().pow(2).sum().reshape({1}).cpu();
    this_replica().all_reduce(squares, ReduceOp::kMean);
    return at::mse_loss(output, batch.target) / (0.1 + squares.to(output.device()));
  }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override {
    const double error = (output - batch.target).pow(2).sum().item<double>();
    return at::tensor({static_cast<double>(batch.size), error}, at::kDouble);
  }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override {
    return {{"error", counts[1].item<double>() / counts[0].item<double>(), /*lower_is_better=*/true}};
  }
  [[nodiscard]] std::string model_name() const override { return "noisy"; }

  std::function<void(std::int64_t number)> on_forward;  ///< called before each forward pass with its number, from 1

 private:
  std::int64_t size_;
  std::int64_t shifted_;
  std::int64_t forwards_ = 0;
};

/// Four replicas and 10 steps, 3 per epoch (each with 2 accumulated batches of 3 samples, the last of 2).
inline TrainConfig noisy_config() {
  TrainConfig config;
  config.replicas = 4;
  config.batch_size = 3;
  config.accumulate_steps = 2;
  config.epochs = 100;
  config.max_steps = 10;
  config.clip_norm = 0.5;
  config.optimizer.lr = 0.01;
  config.log_every_steps = 1;
  config.data.train = config.data.test = "made up";
  config.checkpoint = {.every_steps = 1, .keep_last = 100};
  return config;
}

struct NoisyRun {
  TrainConfig config = noisy_config();
  NoisyTask task = NoisyTask();
  std::string resume = "none";
  bool allow_other_bits = false;
};

inline TrainResult train(const Job& job, const std::filesystem::path& run_dir, NoisyRun run = {}) {
  Trainer trainer(
      job, run.task, run.config,
      {.recipe = "noisy", .run_dir = run_dir, .resume = run.resume, .allow_other_bits = run.allow_other_bits});
  return trainer.fit();
}

inline std::string digest_of(const std::filesystem::path& where) {
  return checkpoint_digest(load_checkpoint(where.string()));
}

}  // namespace lockstep::test
