// A run that may be killed at any time. It saves every 20 steps and resumes from its newest checkpoint.
#include <lockstep/lockstep.h>

#include "../digits.h"

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(28 * 28, 128))),
        out(register_module("out", torch::nn::Linear(128, 10))) {}
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(hidden(x.flatten(1)))); }
  torch::nn::Linear hidden, out;
};

torch::Tensor loss(const torch::Tensor& output, const lockstep::Batch& batch) {
  return torch::nn::functional::cross_entropy(output, batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task({.model = [] { return Net(); }, .dataset = digits, .loss = loss});
  lockstep::TrainConfig config;
  config.replicas = 2;  // so that a single process can also resume the run
  config.epochs = 8;
  config.batch_size = 32;
  config.checkpoint.every_steps = 20;
  config.data.train = "train";
  lockstep::TrainerOptions options{.recipe = "digits", .run_dir = "runs/digits", .resume = "auto"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  const lockstep::TrainResult result = lockstep::Trainer(job, task, config, options).fit();
  job.print("complete after {} steps", result.steps);
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
