// SPDX-License-Identifier: Apache-2.0
// A weight used before and after a collective, in 16 bits: the run has the same bits on any number of ranks, and the
// guard, which recomputes a replica without the collectives, agrees with them.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/train/function_task.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace shared_weights_test {

using test::TempDir;

/// Applies one layer twice, with a synced batch norm in between.
struct SharedNet : torch::nn::Module {
  SharedNet() {
    register_module("first", first);
    register_module("shared", shared);
    register_module("norm", norm);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor once = norm(shared(first(x))).relu();
    return last(shared(once).relu());
  }
  torch::nn::Linear first{2, 16};
  torch::nn::Linear shared{16, 16};
  nn::BatchNorm1d norm{16};
  torch::nn::Linear last{16, 1};
};

std::shared_ptr<Dataset> products() {
  return make_dataset(48, [](std::int64_t i) {
    const double x = static_cast<double>((i * 37) % 48) / 20 - 1;
    const double y = static_cast<double>((i * 17) % 48) / 20 - 1;
    return Sample{at::tensor({x, y}, at::kFloat), at::full({1}, x * y)};
  });
}

/// Four replicas and three steps. Throws: CorruptionError if the guard finds a difference.
void train(const Job& job, const std::filesystem::path& run_dir) {
  FunctionTask task(
      {.model = [] { return std::make_shared<SharedNet>(); },
       .dataset = [](const std::string&) { return products(); },
       .loss = [](const at::Tensor& output, const Batch& batch) { return at::mse_loss(output, batch.target); }});
  TrainConfig config;
  config.replicas = 4;
  config.batch_size = 4;
  config.max_steps = 3;
  config.amp = "bf16";
  config.sync_batchnorm = true;
  config.fused_layers = false;  // torch's own layers use autocast's cache
  config.guard = 1;
  config.data.train = "made up";
  EXPECT_EQ(Trainer(job, task, config, {.recipe = "shared", .run_dir = run_dir}).fit().steps, 3);
}

class SharedWeights : public ::testing::TestWithParam<int> {};

TEST_P(SharedWeights, HaveTheBitsOfOneProcessAndTheGuardFindsNoFault) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  testing::run_ranks(testing::current_test(), [&](Job& job) { train(job, shared); },
                     {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  train(testing::alone(), folder / "alone");
  EXPECT_EQ(test::digest_of(shared), test::digest_of(folder / "alone"));
}
INSTANTIATE_TEST_SUITE_P(OnRanks, SharedWeights, ::testing::Values(2, 4));

}  // namespace shared_weights_test
}  // namespace lockstep
