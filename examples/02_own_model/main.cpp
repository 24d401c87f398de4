// Your own network learns digits. single.cpp is for one device, main.cpp for any number of ranks: compare them.
#include <lockstep/lockstep.h>

#include "../digits.h"

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 32, 3))),
        conv2(register_module("conv2", torch::nn::Conv2d(32, 64, 3))),
        out(register_module("out", torch::nn::Linear(64 * 5 * 5, 10))) {}
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    return out(x.flatten(1));
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear out;
};
TORCH_MODULE(Net);

int main(int argc, char** argv) {
  auto job = lockstep::init(argc, argv);
  const int epochs = argc > 1 ? std::stoi(argv[1]) : 3;
  torch::manual_seed(0);
  lockstep::DistributedDataParallel model{Net(), job};
  torch::optim::Adam optimizer(model->parameters(), 3e-3);
  lockstep::DataLoader loader{digits("train"), job, {.batch_size = 32, .shuffle = true}};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto& batch : loader.epoch(epoch)) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();
      optimizer.step();
    }
  }
  const auto found = lockstep::evaluate_sharded(  // each rank evaluates its part of the digits
      job, model, digits("test"), {.batch_size = 250},
      [&](const lockstep::Batch& batch) { return model(batch.data).argmax(1).eq(batch.target).sum(); });
  job.print("accuracy {:.4f} on {} digits", found.mean(), found.samples);
  return 0;
}
