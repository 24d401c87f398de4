// A training run whose samples are slow to read, as from a remote disk: what do the profile and the step report show?
#include <lockstep/lockstep.h>

#include <thread>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(64, 1024))),
        middle(register_module("middle", torch::nn::Linear(1024, 1024))),
        out(register_module("out", torch::nn::Linear(1024, 10))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(middle(torch::relu(hidden(x))))); }
  torch::nn::Linear hidden, middle, out;
};

std::shared_ptr<lockstep::Dataset> samples(const std::string& /*part*/) {
  return lockstep::make_dataset(1600, [](int64_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return lockstep::Sample{at::full({64}, i % 10 * 0.1), at::scalar_tensor(i % 10, at::kLong)};
  });
}

at::Tensor cross_entropy(const at::Tensor& output, const lockstep::Batch& batch) {
  RECORD_USER_SCOPE("loss");  // names a section of your code in the trace
  return torch::nn::functional::cross_entropy(output, batch.target);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task({.model = [] { return Net(); }, .dataset = samples, .loss = cross_entropy});
  lockstep::TrainConfig config;
  config.epochs = 1;
  config.batch_size = 32;
  config.workers = 1;
  config.data.train = "samples";
  lockstep::TrainerOptions options{.recipe = "slow_disk", .run_dir = "runs/slow"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  lockstep::Trainer(job, task, config, options).fit();
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
