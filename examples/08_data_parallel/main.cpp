// The same training four ways: one thread, libtorch's own threads, DataParallel, DistributedDataParallel.
#include <lockstep/lockstep.h>
#include <sys/resource.h>

struct Net : torch::nn::Cloneable<Net> {  // DP
  Net() { reset(); }
  void reset() override {  // DP
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 32, 5)));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 5)));
    out = register_module("out", torch::nn::Linear(64, 10));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out(second(at::max_pool2d(first(x).relu(), 2)).relu().mean({2, 3}));
  }
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear out{nullptr};
};

// Prints: images per second over all ranks; the minimum and maximum memory of a process; the sum of all weights.
template <class Model>
int train(lockstep::Job& job, Model&& model) {
  constexpr int64_t kBatch = 64, kWarmUp = 3, kSteps = 15;
  lockstep::SGD optimizer{model, {.lr = 0.05}};
  const at::Tensor all_images = torch::randn({kBatch, 3, 32, 32}), all_labels = torch::randint(10, {kBatch}, at::kLong);
  const at::Tensor images = all_images.chunk(job.world_size())[job.rank()];  // DDP
  const at::Tensor labels = all_labels.chunk(job.world_size())[job.rank()];  // DDP
  std::chrono::steady_clock::time_point begin;
  for (int64_t step = -kWarmUp; step < kSteps; ++step) {
    if (step == 0) begin = std::chrono::steady_clock::now();
    torch::nn::functional::cross_entropy(model.forward(images), labels).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  double weights = 0;
  for (const auto& [name, tensor] : lockstep::named_parameters_of(model))
    weights += tensor.sum().template item<double>();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double memory = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  const at::Tensor mine = at::tensor({memory, -memory, weights}, at::kDouble);
  job.group().all_reduce(mine, {.op = lockstep::ReduceOp::kMax}).wait();
  job.print("{} {} {} {:.7f}", kBatch * kSteps / spent.count(), -mine[1].item<double>(), mine[0].item<double>(),
            mine[2].item<double>());
  return 0;
}

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "ddp";
  lockstep::spawn(argc, argv, {.processes = way == "ddp" ? 2 : 1, .console = lockstep::ConsoleStyle::kMainRaw});  // DDP
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) {
    torch::manual_seed(0);
    if (way != "threads") at::set_num_threads(way == "dp" ? 2 : 1);
    if (way == "dp") return train(job, lockstep::DataParallel{Net(), {.replicas = 2}});  // DP
    if (way == "ddp") return train(job, lockstep::DistributedDataParallel{Net(), job});  // DDP
    return train(job, Net());
  });
}
