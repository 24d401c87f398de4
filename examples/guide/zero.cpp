// AdamW with its state sharded over the ranks, but saved and loaded as if it were not sharded.
#include <lockstep/lockstep.h>

int64_t bytes_of(const lockstep::StateDict& state) {
  int64_t bytes = 0;
  for (const auto& entry : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&entry.second)) bytes += static_cast<int64_t>(tensor->nbytes());
  }
  return bytes;
}

int train(lockstep::Job& job) {
  torch::manual_seed(0);
  lockstep::DistributedDataParallel model{torch::nn::Linear(1000, 1000), job};
  lockstep::ZeroRedundancyOptimizer optimizer{model, job, lockstep::AdamWOptions{.lr = 1e-3}};
  for (int step = 0; step < 3; ++step) {
    model(torch::rand({8, 1000})).pow(2).mean().backward();
    optimizer.step(lockstep::clip_factor(optimizer.grad_norm(), 1.0));
    optimizer.zero_grad();
  }
  optimizer.consolidate_state_dict();  // call it on every rank; rank 0 then has the state of a plain AdamW
  const int64_t here = bytes_of(optimizer.local().state_dict());
  if (job.is_main()) {
    job.print("state: {} bytes on rank 0, {} in all, {} ranks", here, bytes_of(optimizer.state_dict()),
              job.world_size());
  }
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
