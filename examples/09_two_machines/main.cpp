// A training run for any number of machines: six replicas, on however many ranks there are.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 64))),
        out(register_module("out", torch::nn::Linear(64, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

// Points in a square; the class says whether both coordinates have the same sign.
std::shared_ptr<lockstep::Dataset> points(const std::string& /*part*/) {
  return lockstep::make_dataset(4096, [](int64_t i) {
    const double x = (i % 64) / 32.0 - 1, y = (i / 64) / 32.0 - 1;
    return lockstep::Sample{at::tensor({x, y}, at::kFloat), at::scalar_tensor(x * y > 0 ? 1 : 0, at::kLong)};
  });
}

at::Tensor cross_entropy(const at::Tensor& output, const lockstep::Batch& batch) {
  return torch::nn::functional::cross_entropy(output, batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task({.model = [] { return Net(); }, .dataset = points, .loss = cross_entropy});
  lockstep::TrainConfig config;
  config.replicas = 6;
  config.epochs = 15;
  config.batch_size = 16;
  config.optimizer.lr = 1e-2;
  config.workers = 0;
  config.checkpoint.every_steps = 20;
  config.data.train = "points";
  lockstep::TrainerOptions options{.recipe = "points", .run_dir = "runs/points", .resume = "auto"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  const auto result = lockstep::Trainer(job, task, config, options).fit();
  if (!result.stopped_by.empty()) return static_cast<int>(lockstep::ExitCode::kTerminated);  // saved, not done: 143
  job.print("{} steps; the last ones on {} ranks", result.steps, job.world_size());
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
