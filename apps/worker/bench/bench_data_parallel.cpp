// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/benches.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <torch/nn/cloneable.h>

#include <functional>
#include <memory>
#include <utility>

#include "captcha/model/model.h"
#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/train/prepare.h"
#include "worker/bench/measure.h"
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

using captcha::CaptchaConfig;
using captcha::CaptchaNet;
using captcha::CaptchaTask;

std::shared_ptr<CaptchaNet> make_net(const CaptchaConfig& config, CaptchaTask& task) {
  auto net = std::dynamic_pointer_cast<CaptchaNet>(task.make_model());
  if (config.channels_last) use_channels_last(*net);
  if (config.fused_layers) (void)nn::optimize(*net);
  return net;
}

/// Wraps the network for DataParallel, which clones it.
class CopiedNet final : public torch::nn::Cloneable<CopiedNet> {
 public:
  explicit CopiedNet(std::function<std::shared_ptr<CaptchaNet>()> make) : make_(std::move(make)) { reset(); }
  void reset() override { net_ = register_module("net", make_()); }
  at::Tensor forward(const at::Tensor& images) { return net_->forward(images); }

 private:
  std::function<std::shared_ptr<CaptchaNet>()> make_;
  std::shared_ptr<CaptchaNet> net_;
};

Batch random_batch(const CaptchaConfig& config, std::int64_t size) {
  Batch batch;
  batch.data = at::rand({size, 1, config.labels.height, config.labels.width});
  batch.target =
      at::randint(static_cast<std::int64_t>(config.characters().size()), {size, config.labels.length}, at::kLong);
  batch.size = size;
  if (config.channels_last) batch.data = to_channels_last(batch.data);
  return batch;
}

struct StepOfThreads {
  double seconds = 0;
  std::int64_t parameters = 0;
};

StepOfThreads time_step(const StepBench& bench, const CaptchaConfig& config, CaptchaTask& task) {
  DataParallel model(CopiedNet([&] { return make_net(config, task); }),
                     {.replicas = bench.data_parallel, .threads = 1});
  const std::int64_t each = config.batch_size;
  const Batch batch = random_batch(config, each * bench.data_parallel);
  AdamW optimizer(model, {.lr = 0, .weight_decay = 1e-4});
  const double seconds = median_seconds({.warmup = 2, .counted = bench.repeats}, [&] {
    optimizer.zero_grad();
    at::Tensor output;
    {
      const Autocast autocast(c10::kCPU, amp_from_name(config.amp));
      output = model(batch.data);
    }
    task.loss(output, batch).backward();
    optimizer.step();
  });
  return {.seconds = seconds, .parameters = parameter_count(model.module())};
}

}  // namespace

int run_data_parallel_bench(const Job& job, const StepBench& bench) {
  const Settings settings(bench.recipe, bench.sets);
  const auto* config = dynamic_cast<const CaptchaConfig*>(&settings.config());
  if (config == nullptr || job.world_size() > 1 || !job.device().is_cpu() || bench.recorder_cost || bench.profile > 0) {
    throw UsageError("--data-parallel measures threads of one process on the CPU, with the captcha network",
                     "leave out --nproc-per-node, --device, --recorder-cost and --profile");
  }
  tensor::set_threads(bench.data_parallel);  // threads for the optimizer; each replica has only one
  keep_freed_memory();
  seed_all(config->seed);
  CaptchaTask task(*config);
  const StepOfThreads step = time_step(bench, *config, task);
  const std::int64_t batch = config->batch_size;
  const double images_per_s = static_cast<double>(batch * bench.data_parallel) / step.seconds;
  if (bench.json) {
    job.print(R"({{"bench": "captcha_step_data_parallel", "network": "{}", "ranks": 1, "replicas": {}, "threads": 1, )"
              R"("batch": {}, "amp": "{}", "channels_last": {}, "fused_layers": {}, "device": "cpu", )"
              R"("parameters": {}, "median_ms": {}, "images_per_s": {}}})",
              task.model_name(), bench.data_parallel, batch, config->amp, config->channels_last, config->fused_layers,
              step.parameters, text::json_number(step.seconds * 1e3, 3), text::json_number(images_per_s, 3));
  } else {
    job.print("{}, DataParallel of {} threads x {} images, {}: {:.1f} ms per step, {:.1f} images/s", task.model_name(),
              bench.data_parallel, batch, config->amp == "none" ? "float32" : config->amp, step.seconds * 1e3,
              images_per_s);
  }
  return 0;
}

}  // namespace lockstep::worker
