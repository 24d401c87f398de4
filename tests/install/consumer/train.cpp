// Two steps of fitting a line to points, on every rank: the loss falls, and a Lockstep error is caught by its type.
#include <lockstep/loop.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

int train(lockstep::Job& job) {
  lockstep::DistributedDataParallel model{torch::nn::LinearImpl(2, 1), job};
  lockstep::SGD optimizer{model, {.lr = 0.1}};
  const at::Tensor x = at::ones({4, 2}) * (1 + job.rank());
  for (int step = 0; step < 2; ++step) {
    const at::Tensor loss = (model(x) - 3).square().mean();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    job.print("step {} on {} ranks", step + 1, job.world_size());
  }
  try {
    (void)lockstep::load_checkpoint("no/such/run");
  } catch (const lockstep::DataError&) {
    job.print("no such run");
  }
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
