// Three ways in which one rank makes the others wait: it skips a collective, works for too long, or is frozen.
#include <lockstep/lockstep.h>

#include <chrono>
#include <csignal>
#include <thread>

struct Net : torch::nn::Module {
  Net() : fc(register_module("fc", torch::nn::Linear(16, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return fc(x); }
  torch::nn::Linear fc;
};

// The mistake that rank 1 makes in its tenth step.
void go_wrong(const std::string& fault) {
  if (fault == "slow") std::this_thread::sleep_for(std::chrono::seconds(60));  // a download, a lock, a slow disk
  if (fault == "frozen") std::raise(SIGSTOP);                                  // as a batch system or Ctrl-Z would do
}

int train(lockstep::Job& job, const std::string& fault) {
  lockstep::DistributedDataParallel model{Net(), job};
  lockstep::AdamW optimizer{model};
  const auto make = [&](int64_t i) { return lockstep::Sample{at::full({16}, i / 512.0), at::full({1}, i / 256.0)}; };
  lockstep::DataLoader loader{lockstep::make_dataset(512, make), job, {.batch_size = 8}};
  for (auto& batch : loader.epoch(0)) {
    const bool is_wrong = job.rank() == 1 && batch.step == 9;
    if (is_wrong) go_wrong(fault);
    if (is_wrong && fault == "skip") continue;  // a "bad batch": no backward, so no all_reduce
    torch::mse_loss(model(batch.data), batch.target).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  job.barrier();
  job.print("{} steps, and no rank hung", optimizer.steps());
  return 0;
}

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "";
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, fault); });
}
