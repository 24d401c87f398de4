// Batch norm over the batches of all ranks: 8 samples on one rank, or 2 on each of 4, train the same way.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(torch::nn::LinearOptions(2, 16).bias(false)))),
        norm(register_module("norm", lockstep::nn::BatchNorm1d(16))),  // torch's options, names and numbers
        out(register_module("out", torch::nn::Linear(16, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(norm(hidden(x)))); }
  torch::nn::Linear hidden;
  lockstep::nn::BatchNorm1d norm;
  torch::nn::Linear out;
};

int train(lockstep::Job& job) {
  torch::manual_seed(0);
  const auto net = std::make_shared<Net>();
  net->to(job.device());
  lockstep::DistributedDataParallel model{net, job};
  lockstep::sync_batch_norm(model, job);  // every lockstep::nn::BatchNorm of the model
  lockstep::AdamW optimizer{model, {.lr = 1e-2}};
  const int64_t each = 8 / job.world_size();
  at::Tensor loss;
  for (int step = 0; step < 50; ++step) {
    // All ranks draw the same points, and each takes its own part.
    const at::Tensor all = torch::rand({8, 2}).to(job.device()) * 2 - 1;
    const at::Tensor x = all.narrow(0, each * job.rank(), each);
    loss = (model(x) - x.prod(1, /*keepdim=*/true)).pow(2).mean();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  job.group().all_reduce(loss.detach(), {.op = lockstep::ReduceOp::kMean}).wait();
  const double variance = model.module().norm->running_var.sum().item<double>();
  job.print("loss {:.4f}, running variance {:.4f}, {} x {} samples", loss.item<float>(), variance, job.world_size(),
            each);
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
