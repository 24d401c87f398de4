// Defines the training. Settings come from config.yml and the command line: @NAME@ --help lists them all.
#include <lockstep/trainer.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "data.h"
#include "model.h"

at::Tensor loss(const at::Tensor& output, const lockstep::Batch& batch) {
  return at::cross_entropy_loss(output, batch.target);
}

at::Tensor is_right(const at::Tensor& output, const lockstep::Batch& batch) {
  return output.argmax(1).eq(batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task(
      {.model = [] { return Net(32); }, .dataset = make_data, .loss = loss, .metrics = {{"accuracy", is_right}}});
  lockstep::TrainConfig config;
  lockstep::TrainerOptions options{.recipe = "@NAME@", .run_dir = "runs/@NAME@"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  const lockstep::TrainResult result = lockstep::Trainer(job, task, config, options).fit();
  job.print("{} after {} steps", lockstep::to_text(result.metrics), result.steps);
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
