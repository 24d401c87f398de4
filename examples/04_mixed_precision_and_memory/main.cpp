// Measures a step's time and memory: with or without mixed precision, with the batch whole or in parts.
#include <lockstep/lockstep.h>
#include <lockstep/tensor/device_memory.h>

#include "../digits.h"

// Wide enough that activations, not libtorch itself, dominate memory use.
torch::nn::Sequential make_net() {
  using Conv = torch::nn::Conv2dOptions;
  return torch::nn::Sequential(
      torch::nn::Conv2d(Conv(1, 64, 3).padding(1)), torch::nn::ReLU(), torch::nn::Conv2d(Conv(64, 64, 3).padding(1)),
      torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Conv2d(Conv(64, 64, 3).padding(1)), torch::nn::ReLU(),
      torch::nn::AdaptiveAvgPool2d(4), torch::nn::Flatten(), torch::nn::Linear(64 * 16, 10));
}

torch::Tensor loss(const torch::Tensor& output, const lockstep::Batch& batch) {
  return torch::nn::functional::cross_entropy(output, batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task({.model = make_net, .dataset = digits, .loss = loss});
  lockstep::TrainConfig config;
  config.batch_size = 128;
  config.max_steps = 4;
  config.data.train = "train";
  lockstep::TrainerOptions options{.recipe = "memory", .run_dir = "runs/memory"};
  double last_loss = 0;
  options.sinks = {
      lockstep::run_callbacks({.on_step = [&](const lockstep::StepResult& step) { last_loss = *step.loss; }})};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  const lockstep::TrainResult result = lockstep::Trainer(job, task, config, options).fit();
  job.print("step {:.0f} ms  peak memory {:.1f} MB  loss {:.6f}  with {}", 1e3 * result.seconds / result.steps,
            lockstep::memory_use(job.device()).peak / 1e6, last_loss, config.amp);
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
