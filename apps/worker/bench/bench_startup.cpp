// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/benches.h"

#include <torch/nn/modules/linear.h>

#include <chrono>
#include <memory>

#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/threads.h"

namespace lockstep::worker {

int run_startup_bench(Job& job) {
  tensor::set_threads(1);
  DistributedDataParallel model(std::make_shared<torch::nn::LinearImpl>(16, 4), job);
  SGD optimizer(model, {.lr = 0.1});
  model(at::rand({8, 16})).sum().backward();
  optimizer.step();
  job.barrier();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  job.print("first step at {}", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return 0;
}

}  // namespace lockstep::worker
