// The digits of 02_own_model with the Trainer: the program defines the task, and Lockstep provides the loop.
#include <lockstep/lockstep.h>

#include "../digits.h"

struct Net : torch::nn::Module {
  Net()
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

torch::Tensor loss(const torch::Tensor& output, const lockstep::Batch& batch) {
  return torch::nn::functional::cross_entropy(output, batch.target);
}

torch::Tensor is_right(const torch::Tensor& output, const lockstep::Batch& batch) {
  return output.argmax(1).eq(batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task(
      {.model = [] { return Net(); }, .dataset = digits, .loss = loss, .metrics = {{"accuracy", is_right}}});
  lockstep::TrainConfig config;
  config.replicas = 2;  // the same weights on one process or two
  config.epochs = 4;
  config.batch_size = 32;
  config.optimizer.lr = 3e-3;
  config.data = {.train = "train", .test = "test"};  // the arguments of digits()
  lockstep::TrainerOptions options{.recipe = "digits", .run_dir = "runs/digits"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  const lockstep::TrainResult result = lockstep::Trainer(job, task, config, options).fit();
  job.print("{} after {} steps", lockstep::to_text(result.metrics), result.steps);
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
