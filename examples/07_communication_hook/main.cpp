// Hooks that change how gradients are sent: bytes, time and loss of a training run with each.
#include <lockstep/base/trace.h>
#include <lockstep/lockstep.h>
#include <lockstep/parallel/power_sgd.h>

#include "../digits.h"

// Sums the bytes of this rank's all-reduces.
struct ByteCounter : lockstep::trace::Sink {
  void begin(const lockstep::trace::Event& event) noexcept override {
    if (event.name == "all_reduce") bytes += event.bytes;
  }
  void end(const lockstep::trace::Event&) noexcept override {}
  std::atomic<uint64_t> bytes{0};
};

// Your own hook: each rank sends the sign of every number, times one magnitude for all of them.
lockstep::HookStage signs(lockstep::GradBucket& bucket) {
  const torch::Tensor length = bucket.gradient().abs().mean();
  auto sum = bucket.all_reduce({(bucket.gradient().sign() * length).to(torch::kBFloat16)});
  return {{sum.work}, [&bucket, sum] {  // after backward, when the sum has arrived
            bucket.result().copy_(sum.value()).div_(bucket.divisor());
            return lockstep::HookStage{};
          }};
}

void train(lockstep::Job& job, const std::string& name, const lockstep::CommunicationHook& hook) {
  static ByteCounter counter;
  static const bool counts = lockstep::trace::add_sink(counter);
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(784, 512), torch::nn::ReLU(),
                            torch::nn::Linear(512, 512), torch::nn::ReLU(), torch::nn::Linear(512, 10));
  lockstep::DistributedDataParallel model{net, job, {.hook = hook}};
  lockstep::AdamW optimizer{model, {.lr = 1e-3}};
  lockstep::DataLoader loader{digits("train"), job, {.batch_size = 64, .shuffle = true}};
  const uint64_t before = counter.bytes;
  double mean = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto& batch : loader.epoch(0)) {
    torch::Tensor loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    mean = 0.9 * mean + 0.1 * loss.item<double>();
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  job.print("{:<9}  {:>9} B a step  {:>5.1f} ms a step  loss {:.3f}", name,
            counts ? (counter.bytes - before) / loader.steps_per_epoch() : 0, took.count() / loader.steps_per_epoch(),
            mean);
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [](lockstep::Job& job) {
    const auto power = std::make_shared<lockstep::PowerSgd>(lockstep::PowerSgdOptions{.rank = 4, .start_iter = 10});
    train(job, "none", nullptr);
    train(job, "bf16", lockstep::hooks::bf16_compress());
    train(job, "powersgd", lockstep::hooks::power_sgd(power));
    return train(job, "signs", signs), 0;
  });
}
