// Optimizers by name, and parameter groups: no decay on biases, a different learning rate for the last layer.
#include <lockstep/lockstep.h>

int train(lockstep::Job& job) {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(64, 128), torch::nn::ReLU(), torch::nn::Linear(128, 1));
  lockstep::DistributedDataParallel model{net, job};
  lockstep::SGD optimizer{model,
                          {.lr = 0.01,
                           .momentum = 0.9,
                           .weight_decay = 1e-4,
                           .groups = {{.pattern = R"(^0\.bias$)", .weight_decay = 0}, {.pattern = "^2", .lr = 0.001}}}};

  torch::manual_seed(job.rank() + 1);
  torch::Tensor loss;
  for (int step = 0; step < 100; ++step) {
    const torch::Tensor x = torch::rand({32, 64});
    loss = torch::mse_loss(model(x), x.mean(1, /*keepdim=*/true));
    loss.backward();
    optimizer.set_lr(0.01 * (1 - step / 100.0));  // scales the groups' learning rates in proportion
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const lockstep::GroupState& group : optimizer.groups()) {
    job.print("'{}': {} parameters, decay {}, lr {:.2g}", group.pattern, group.parameters.size(), group.weight_decay,
              group.lr);
  }
  const auto chosen = lockstep::make_optimizer("lion", model, {.lr = 1e-4, .weight_decay = 0.1});
  job.print("Lion has {} state tensors", chosen->state_dict().size() - 1);
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
