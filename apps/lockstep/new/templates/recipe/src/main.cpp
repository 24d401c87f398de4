// Trains MyTask. Settings come from config.yml and the command line: @NAME@ --help lists them all.
#include <lockstep/trainer.h>

#include "task.h"

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::captcha::CaptchaConfig config;
  lockstep::TrainerOptions options{.recipe = "@NAME@", .run_dir = "runs/@NAME@"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  MyTask task(config);
  const lockstep::TrainResult result = lockstep::Trainer(job, task, config, options).fit();
  job.print("{} after {} steps", lockstep::to_text(result.metrics), result.steps);
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
