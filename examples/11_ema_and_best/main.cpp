// A run in two stages: the second starts from the first's best checkpoint. Evaluations use a moving average.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

// Points in a square; the class says whether both coordinates have the same sign. One training label in five is wrong.
std::shared_ptr<lockstep::Dataset> points(const std::string& part) {
  const bool is_noisy = part == "train";
  return lockstep::make_dataset(1024, [is_noisy](int64_t i, lockstep::SampleContext& context) {
    const double x = (i % 32 + 0.5) / 16 - 1, y = (i / 32 + 0.5) / 16 - 1;
    const bool is_wrong = is_noisy && context.random.uniform(0, 1) < 0.2;
    return lockstep::Sample{at::tensor({x, y}, at::kFloat), at::scalar_tensor((x * y > 0) != is_wrong, at::kLong)};
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
  config.epochs = 14;
  config.batch_size = 16;
  config.optimizer.lr = 3e-2;  // deliberately too high: the weights fluctuate, but their average does not
  config.ema = {.decay = 0.98, .warmups = 20};
  config.stages = {.stop_epoch = 8, .ema_restart_decay = 0.99, .ema_decay_step = 0.005};
  config.data = {.train = "train", .test = "test"};
  lockstep::TrainerOptions options{.recipe = "points", .run_dir = "runs/points"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  lockstep::Trainer(job, task, config, options).fit();
  return 0;
}

int main(int argc, char** argv) {
  lockstep::spawn(argc, argv, {.processes = 2, .console = lockstep::ConsoleStyle::kMainRaw});
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
