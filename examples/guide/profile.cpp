// Profiles a step of your own loop.
#include <lockstep/lockstep.h>
#include <lockstep/observe/profiler.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(64, 256))),
        out(register_module("out", torch::nn::Linear(256, 10))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

lockstep::Sample sample(int64_t i) { return {at::full({64}, i % 10 * 0.1), at::scalar_tensor(i % 10, at::kLong)}; }

int train(lockstep::Job& job) {
  lockstep::DistributedDataParallel model{Net(), job};
  lockstep::AdamW optimizer{model, {.lr = 1e-3}};
  lockstep::DataLoader loader{lockstep::make_dataset(4096, sample), job, {.batch_size = 64, .shuffle = true}};
  lockstep::observe::Profiler profiler{
      job, {.steps = 10, .warmup = 3, .folder = "run/trace", .parameters = lockstep::named_parameters_of(model)}};
  for (auto& batch : loader.epoch(0)) {
    const at::Tensor out = model(batch.data);
    const at::Tensor loss = [&] {
      RECORD_USER_SCOPE("loss");  // names a section of your code in the trace
      return torch::nn::functional::cross_entropy(out, batch.target);
    }();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    profiler.step();  // after 3 + 10 steps it prints the tables and writes the trace
  }
  profiler.finish();  // needed if the epoch has fewer steps
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
