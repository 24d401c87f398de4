// SPDX-License-Identifier: Apache-2.0
// The ranks of scripts/trials/trial provoke: a small training run in which variables set the cost of samples, forward
// and buckets, on all ranks or on one (PROVOKE_RANK), so that the step report has a cause to find.
//   PROVOKE_SAMPLE_MS   CPU time of a sample          PROVOKE_READ      a file that each sample reads
//   PROVOKE_FORWARD_MS  CPU time of a forward         PROVOKE_LAYERS    layers of 1 MiB
//   PROVOKE_FREE_MB     the first steps use up all but this much of the memory
//   PROVOKE_CORES       the core of each rank: "0,1"
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <sched.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/control_group.h"
#include "lockstep/base/env.h"
#include "lockstep/comm/job.h"
#include "lockstep/train/arguments.h"
#include "lockstep/train/function_task.h"
#include "lockstep/train/trainer.h"

namespace {

constexpr std::int64_t kWidth = 512;  // a layer of 512 x 512 floats takes 1 MiB
constexpr std::int64_t kSamples = 1024;

double number(const char* name, double otherwise = 0) {
  const auto given = lockstep::env::get(name);
  return given ? std::atof(given->c_str()) : otherwise;
}

/// Returns true if PROVOKE_RANK names this rank or is not set.
bool is_here() {
  const auto rank = lockstep::env::get("PROVOKE_RANK");
  return !rank || *rank == lockstep::env::get("RANK").value_or("0");
}

double number_here(const char* name, double otherwise) { return is_here() ? number(name, otherwise) : otherwise; }

/// Uses this much CPU time, no matter how long that takes.
void compute_for(double ms) {
  const auto used = [] {
    timespec now{};
    (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  };
  for (const double end = used() + ms; used() < end;) {
  }
}

void read_whole(const std::string& file) {
  std::vector<char> bytes(1 << 16);
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("cannot open " + file);
  while (::read(fd, bytes.data(), bytes.size()) > 0) {
  }
  ::close(fd);
}

/// Leaves PROVOKE_FREE_MB of the cgroup's memory free.
std::vector<char> take_memory() {
  const double left = number("PROVOKE_FREE_MB") * 1e6;
  const auto group = lockstep::read_control_group();
  if (left <= 0 || !group.memory) return {};
  const double taken = static_cast<double>(*group.memory) - static_cast<double>(group.memory_used) - left;
  return std::vector<char>(static_cast<std::size_t>(std::max(taken, 0.0)), 1);
}

class Net final : public torch::nn::Module {
 public:
  explicit Net(std::int64_t layers) {
    for (std::int64_t i = 0; i < layers; ++i) {
      layers_.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(kWidth, kWidth)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    compute_for(ms_);
    constexpr int kStarted = 10;  // by then training has allocated its own memory
    if (++forwards_ == kStarted) ballast_ = take_memory();
    for (torch::nn::Linear& layer : layers_) x = layer(x);
    return x;
  }

 private:
  const double ms_ = number_here("PROVOKE_FORWARD_MS", 4);
  std::vector<torch::nn::Linear> layers_;
  std::vector<char> ballast_;
  int forwards_ = 0;
};

std::shared_ptr<lockstep::Dataset> samples(const std::string& /*folder*/) {
  const double ms = number_here("PROVOKE_SAMPLE_MS", 0.2);
  const std::string file = is_here() ? lockstep::env::get("PROVOKE_READ").value_or("") : "";
  return lockstep::make_dataset(kSamples, [ms, file](std::int64_t) {
    compute_for(ms);
    if (!file.empty()) read_whole(file);
    return lockstep::Sample{at::zeros({kWidth}), at::zeros({kWidth})};
  });
}

void stay_on_own_core() {
  std::istringstream cores(lockstep::env::get("PROVOKE_CORES").value_or(""));
  const int rank = std::atoi(lockstep::env::get("RANK").value_or("0").c_str());
  std::string core;
  for (int i = 0; i <= rank; ++i) std::getline(cores, core, ',');
  if (core.empty()) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(std::atoi(core.c_str()), &own);
  if (::sched_setaffinity(0, sizeof(own), &own) != 0) throw std::runtime_error("no core " + core);
}

int train(lockstep::Job& job, int argc, char** argv) {
  lockstep::FunctionTask task(
      {.model = [] { return Net(static_cast<std::int64_t>(number("PROVOKE_LAYERS", 1))); },
       .dataset = samples,
       .loss = [](const at::Tensor& output,
                  const lockstep::Batch& batch) { return at::mse_loss(output, batch.target); }});
  lockstep::TrainConfig config;
  config.data.train = "samples";
  config.batch_size = 4;
  config.epochs = 1000;
  config.tensorboard = "none";
  lockstep::TrainerOptions options{.recipe = "provoked", .run_dir = "provoked"};
  if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
  lockstep::Trainer trainer(job, task, config, options);
  (void)trainer.fit();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  stay_on_own_core();
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, argc, argv); });
}
