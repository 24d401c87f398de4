// A training loop: everything that happens in a step is in this file.
#include <lockstep/loop.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "data.h"
#include "model.h"

// Hyperparameters.
constexpr int kEpochs = 5;
constexpr int64_t kBatchSize = 64;  // on each rank
constexpr double kLearningRate = 1e-2;

int train(lockstep::Job& job) {
  torch::manual_seed(0);
  lockstep::DistributedDataParallel model{Net(32), job};  // broadcasts rank 0's weights
  lockstep::AdamW optimizer{model, {.lr = kLearningRate}};
  lockstep::DataLoader loader{make_data("train"), job, {.batch_size = kBatchSize, .workers = 2, .shuffle = true}};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    at::Tensor loss;
    for (auto& batch : loader.epoch(epoch)) {  // each rank reads its own part
      loss = at::cross_entropy_loss(model(batch.data), batch.target);
      loss.backward();  // gradients are averaged over the ranks while backward runs
      optimizer.step();
      optimizer.zero_grad();
    }
    job.group().all_reduce(loss.detach(), {.op = lockstep::ReduceOp::kMean}).wait();
    const auto right = [&](auto& batch) { return model(batch.data).argmax(1).eq(batch.target).sum(); };
    const auto found = lockstep::evaluate_sharded(job, model, make_data("test"), {.batch_size = kBatchSize}, right);
    job.print("epoch {}  loss {:.4f}  accuracy {:.4f}  on {} ranks", epoch + 1, loss.item<float>(), found.mean(),
              job.world_size());
  }
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
