// A whole program around the Trainer: it starts its own ranks, and resumes when it is restarted.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

// Points in a square; the class says whether both coordinates have the same sign. `part`: data.train or data.test.
std::shared_ptr<lockstep::Dataset> points(const std::string& part) {
  const double shift = part == "test" ? 0.01 : 0;
  return lockstep::make_dataset(4096, [shift](int64_t i) {
    const double x = (i % 64) / 32.0 - 1 + shift, y = (i / 64) / 32.0 - 1 + shift;
    return lockstep::Sample{at::tensor({x, y}, at::kFloat), at::scalar_tensor(x * y > 0 ? 1 : 0, at::kLong)};
  });
}

at::Tensor cross_entropy(const at::Tensor& output, const lockstep::Batch& batch) {
  return torch::nn::functional::cross_entropy(output, batch.target);
}

at::Tensor is_right(const at::Tensor& output, const lockstep::Batch& batch) {
  return output.argmax(1).eq(batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task(
      {.model = [] { return Net(); }, .dataset = points, .loss = cross_entropy, .metrics = {{"accuracy", is_right}}});
  lockstep::TrainConfig config;
  config.replicas = 2;  // the same weights on one process or two
  config.epochs = 5;
  config.optimizer.lr = 1e-2;
  config.checkpoint.every_steps = 20;
  config.data = {.train = "train", .test = "test"};
  lockstep::TrainerOptions options{.recipe = "points", .run_dir = "runs/points", .resume = "auto"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;  // --set, --resume, FILE.yml, ...
  lockstep::Trainer trainer(job, task, config, options);
  const lockstep::TrainResult result = trainer.fit();
  job.print("{} after {} steps", lockstep::to_text(result.metrics), result.steps);
  return 0;
}

int main(int argc, char** argv) {
  lockstep::spawn(argc, argv, {.processes = 2, .console = lockstep::ConsoleStyle::kMainRaw});
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
