// SPDX-License-Identifier: Apache-2.0
#include "worker/bench_step.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/Parallel.h>

#include "captcha/model.h"
#include "captcha/task.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"
#include "worker/measure.h"

namespace lockstep::worker {
namespace {

Batch random_batch(const captcha::CaptchaConfig& config, std::int64_t size) {
  Batch batch;
  batch.data = at::rand({size, 1, config.labels.height, config.labels.width});
  batch.target = at::randint(36, {size, config.labels.length}, at::kLong);
  batch.size = size;
  return batch;
}

}  // namespace

int run_step_bench(Job& job, const StepBench& bench) {
  at::set_num_threads(1);
  keep_freed_memory();
  seed_all(0);
  captcha::CaptchaConfig config;
  config.model_type = bench.model;
  captcha::CaptchaTask task(config);
  auto net = std::dynamic_pointer_cast<captcha::CaptchaNet>(task.make_model());
  if (bench.amp != "none") use_channels_last(*net);
  DistributedDataParallel model(net, job);
  AdamW optimizer(model, {.lr = 6e-4, .weight_decay = 1e-4});
  Batch batch = random_batch(config, bench.batch);
  if (bench.amp != "none") batch.data = to_channels_last(batch.data);
  const Amp amp = amp_from_name(bench.amp);
  const double seconds = median_seconds({.warmup = 2, .counted = bench.repeats}, [&] {
    at::Tensor output;
    {
      const Autocast autocast(at::kCPU, amp);
      output = model(batch.data);
    }
    const at::Tensor loss = task.loss(output, batch);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
  const double images_per_s = static_cast<double>(bench.batch * job.world_size()) / seconds;
  if (bench.json) {
    job.print(R"({{"bench": "captcha_step", "model": "{}", "backend": "{}", "ranks": {}, "threads": 1, "batch": {}, )"
              R"("bf16": {}, "channels_last": {}, "device": "cpu", "parameters": {}, "median_ms": {:.3f}, )"
              R"("images_per_s": {:.3f}}})",
              bench.model, job.backend(), job.world_size(), bench.batch, bench.amp == "bf16", bench.amp == "bf16",
              parameter_count(*net), seconds * 1e3, images_per_s);
  } else {
    job.print("{} on {} ranks x {} images, {}: {:.1f} ms a step, {:.1f} images/s", bench.model, job.world_size(),
              bench.batch, bench.amp == "none" ? "float32" : "bf16 channels last", seconds * 1e3, images_per_s);
  }
  return 0;
}

}  // namespace lockstep::worker
