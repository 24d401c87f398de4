// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_timer.h"

#include <ATen/ops/full.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/threads.h"
#include "train/step/step_runner.h"

namespace lockstep {
namespace {

/// Sets process-wide settings while a timer runs.
class ThreadCount {
 public:
  explicit ThreadCount(std::int64_t count) : before_(at::get_num_threads()) {
    tensor::set_threads(static_cast<int>(count));
  }
  ~ThreadCount() { tensor::set_threads_in_turn(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

/// Makes the decisions that a run makes at startup.
TrainConfig decided(const Job& job, TrainConfig config) {
  if (config.replicas == 0) config.replicas = job.world_size();
  if (config.threads == 0) config.threads = 1;
  if (config.batch_size.is_auto()) {
    throw UsageError("batch_size is auto, but steps are timed for a fixed size", setting_words("batch_size=NUMBER"));
  }
  return config;
}

}  // namespace

class StepTimer::Impl {
 public:
  Impl(const Job& job, Task& task, const TrainConfig& config, const std::shared_ptr<Dataset>& dataset,
       StepTimerOptions options)
      : job_(job), config_(decided(job, config)), steps_(job, task, config_) {
    const ThreadCount threads(config_.threads);
    keep_freed_memory();
    steps_.data().open(dataset);
    if (!options.load) steps_.data().repeat_first_batch();
    if (steps_.data().batches_per_epoch() == 0) {
      throw UsageError("the samples do not fill a batch", "use a smaller batch_size, or drop_last=false");
    }
    steps_.build(steps_.make_net());
  }

  double run(std::int64_t count) {
    const ThreadCount threads(config_.threads);
    job_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) step();
    const std::chrono::duration<double> own = std::chrono::steady_clock::now() - begin;
    const at::Tensor slowest = at::full({1}, own.count(), at::kDouble);
    job_.group().all_reduce(slowest, {.op = ReduceOp::kMax}).wait();
    return slowest.item<double>();
  }

  std::vector<std::string> waits() {
    const auto watch = job_.device().is_cuda() ? tensor::make_device_graph() : nullptr;
    if (!watch) throw UsageError("waits are counted on a GPU, but the steps run on the CPU", "--device cuda");
    const ThreadCount threads(config_.threads);
    at::Tensor loss;
    std::vector<std::string> found = watch->waits([&] { loss = compute(); });
    (void)loss.item();
    return found;
  }

  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() { return steps_.model().bucket_bytes(); }

  [[nodiscard]] NamedTensors parameters() { return named_parameters_of(steps_.model()); }

  void rest() {
    steps_.data().end_epoch();
    loading_ = false;
  }

 private:
  // Reading a number waits for the GPU.
  void step() { (void)compute().item(); }

  /// Runs a step. Returns a number that is ready when the step is done.
  at::Tensor compute() {
    const std::int64_t batches = std::min(config_.accumulate_steps, steps_.data().batches_per_epoch());
    if (!loading_ || batch_ + batches > steps_.data().batches_per_epoch()) {
      steps_.data().start_epoch(epoch_++, 0);
      loading_ = true;
      batch_ = 0;
    }
    const at::Tensor loss = steps_.compute_gradients(batches).back().view({-1})[0];
    (void)steps_.weights().update(0);
    batch_ += batches;
    return loss;
  }

  Job job_;
  const TrainConfig config_;
  train::StepRunner steps_;
  bool loading_ = false;
  std::int64_t epoch_ = 0;
  std::int64_t batch_ = 0;
};

StepTimer::StepTimer(const Job& job, Task& task, const TrainConfig& config, const std::shared_ptr<Dataset>& dataset,
                     StepTimerOptions options)
    : impl_(std::make_unique<Impl>(job, task, config, dataset, options)) {}
StepTimer::~StepTimer() = default;
StepTimer::StepTimer(StepTimer&&) noexcept = default;
StepTimer& StepTimer::operator=(StepTimer&&) noexcept = default;

double StepTimer::run(std::int64_t steps) { return impl_->run(steps); }
std::vector<std::int64_t> StepTimer::bucket_bytes() const { return impl_->bucket_bytes(); }
NamedTensors StepTimer::parameters() const { return impl_->parameters(); }
std::int64_t StepTimer::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : parameters()) count += tensor.numel();
  return count;
}
std::vector<std::string> StepTimer::waits() { return impl_->waits(); }
void StepTimer::rest() { impl_->rest(); }

}  // namespace lockstep
