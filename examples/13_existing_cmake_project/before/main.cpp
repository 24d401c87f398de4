// A project with its own loop, which trains on one device.
#include <ATen/core/ivalue.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(1, 32))),
        out(register_module("out", torch::nn::Linear(32, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return out(hidden(x).relu()); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};

int main() {
  torch::manual_seed(0);
  Net model;
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const at::Tensor all = torch::linspace(-1, 1, 64).unsqueeze(1);
  const at::Tensor x = all;
  for (int step = 1; step <= 200; ++step) {
    const at::Tensor loss = torch::nn::functional::mse_loss(model.forward(x), x * x);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  const double error = (model.forward(all) - all * all).abs().mean().item<double>();
  std::printf("the mean error is %.4f\n", error);
}
