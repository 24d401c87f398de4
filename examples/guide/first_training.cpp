// A whole program: it trains on one process, or on many under `lockstep run`.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

int train(lockstep::Job& job) {  // rank, world size and device come from the launcher; without one, the world size is 1
  torch::manual_seed(0);
  auto dataset = lockstep::make_dataset(4096, [](int64_t i) {  // a lambda is enough: loader workers are threads
    const double x = (i % 64) / 32.0 - 1, y = (i / 64) / 32.0 - 1;
    return lockstep::Sample{at::tensor({x, y}, at::kFloat), at::scalar_tensor(x * y > 0 ? 1 : 0, at::kLong)};
  });
  lockstep::DistributedDataParallel model{Net(), job};  // broadcasts rank 0's weights
  lockstep::AdamW optimizer{model, {.lr = 1e-2}};       // knows the parameters by name
  lockstep::DataLoader loader{dataset, job, {.batch_size = 64, .workers = 2, .shuffle = true}};
  for (int epoch = 0; epoch < 5; ++epoch) {
    at::Tensor loss;
    for (auto& batch : loader.epoch(epoch)) {  // each rank gets its own part; there is no set_epoch to forget
      loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
      loss.backward();  // gradients are averaged over the ranks while backward runs
      optimizer.step();
      optimizer.zero_grad();
    }
    job.group().all_reduce(loss.detach(), {.op = lockstep::ReduceOp::kMean}).wait();
    job.print("epoch {}  loss {:.4f}  on {} ranks", epoch + 1, loss.item<float>(), job.world_size());
  }
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
