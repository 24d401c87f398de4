// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/bench_step.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <time.h>

#include <atomic>

#include "captcha/model/model.h"
#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/train/prepare.h"
#include "lockstep/train/step_graph.h"
#include "worker/bench/measure.h"
#include "worker/bench/recorder_cost.h"

namespace lockstep::worker {
namespace {

Batch random_batch(const captcha::CaptchaConfig& config, std::int64_t size) {
  Batch batch;
  batch.data = at::rand({size, 1, config.labels.height, config.labels.width});
  batch.target = at::randint(36, {size, config.labels.length}, at::kLong);
  batch.size = size;
  return batch;
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// CPU seconds of all threads while they were inside a collective.
class CollectiveCpu final : public trace::Sink {
 public:
  CollectiveCpu() { (void)trace::add_sink(*this); }
  ~CollectiveCpu() override { trace::remove_sink(*this); }
  void begin(const trace::Event& /*event*/) noexcept override { began_ = cpu_seconds(CLOCK_THREAD_CPUTIME_ID); }
  void end(const trace::Event& /*event*/) noexcept override {
    const double spent = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - began_;
    nanoseconds_ += static_cast<std::int64_t>(spent * 1e9);
  }
  [[nodiscard]] double seconds() const noexcept { return static_cast<double>(nanoseconds_.load()) * 1e-9; }

 private:
  static thread_local double began_;
  std::atomic<std::int64_t> nanoseconds_{0};
};
thread_local double CollectiveCpu::began_ = 0;

struct StepTime {
  double seconds = 0;
  double collective_share = 0;  ///< share of all CPU seconds
};

template <class Step>
StepTime time_steps(const StepBench& bench, Step step) {
  const CollectiveCpu collectives;
  const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  StepTime time;
  time.seconds =
      median_seconds({.warmup = bench.cuda_graph ? StepGraph::kWarmUp + 2 : 2, .counted = bench.repeats}, step);
  time.collective_share = collectives.seconds() / (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before);
  return time;
}

/// Until the step is over there too: a GPU has only been told of it. Reading one number waits for all before it.
void wait_for_device(const torch::nn::Module& net) {
  const at::Tensor any = net.parameters().front().detach();
  if (!any.is_cpu()) (void)any.view({-1})[0].item<float>();
}

template <class Model>
std::unique_ptr<Optimizer> make_optimizer(Model& model, Job& job, const StepBench& bench) {
  const AdamWOptions options{.lr = 6e-4, .weight_decay = 1e-4};
  if (!bench.zero || job.world_size() == 1) return std::make_unique<AdamW>(model, options);
  return std::make_unique<ZeroRedundancyOptimizer>(model, job, options, ZeroOptions{.shard_gradients = true});
}

template <class Model>
StepGraph step_graph(Model& model, const Job& job, const ReplicaTeam& team, StepGraph::Compute compute) {
  if (!job.device().is_cuda()) throw UsageError("--cuda-graph needs a GPU", "add --device cuda");
  if (team.replicas() > 1)
    throw UsageError("--cuda-graph measures one replica", "use --nproc-per-node 1 without --replicas");
  return {named_parameters_of(model), std::move(compute)};
}

int report_recorder(const Job& job, const StepBench& bench, const RecorderCost& cost) {
  const double share = cost.events_per_step * cost.event_seconds / cost.median_seconds;
  if (bench.json) {
    job.print(
        R"({{"bench": "captcha_step_recorder", "model": "{}", "ranks": {}, "batch": {}, "pairs": {}, "median_ms": {:.3f}, )"
        R"("ratio": {:.5f}, "low": {:.5f}, "high": {:.5f}, "events_per_step": {}, "event_ns": {:.1f}, )"
        R"("share_of_step": {:.7f}}})",
        bench.model, job.world_size(), bench.batch, cost.pairs, cost.median_seconds * 1e3, cost.ratio, cost.low,
        cost.high, cost.events_per_step, cost.event_seconds * 1e9, share);
  } else {
    job.print(
        "{} pairs of steps with and without flight recorder and step report: {:.1f} ms without, ratio {:.4f} (95 %: "
        "{:.4f} to "
        "{:.4f})\n{} events a step, {:.0f} ns each: {:.4f} % of the step",
        cost.pairs, cost.median_seconds * 1e3, cost.ratio, cost.low, cost.high, cost.events_per_step,
        cost.event_seconds * 1e9, share * 100);
  }
  return 0;
}

}  // namespace

int run_step_bench(Job& job, const StepBench& bench) {
  tensor::set_threads(1);
  keep_freed_memory();
  seed_all(0);
  captcha::CaptchaConfig config;
  config.model_type = bench.model;
  captcha::CaptchaTask task(config);
  auto net = std::dynamic_pointer_cast<captcha::CaptchaNet>(task.make_model());
  net->to(job.device());
  if (bench.channels_last) use_channels_last(*net);
  if (bench.fused_layers && job.device().is_cpu()) (void)nn::optimize(*net);
  Batch batch = random_batch(config, bench.batch);
  batch.data = batch.data.to(job.device());
  batch.target = batch.target.to(job.device());
  if (bench.channels_last) batch.data = to_channels_last(batch.data);
  const Amp amp = amp_from_name(bench.amp);
  DistributedDataParallel model(
      net, job, DdpOptions{.broadcast_buffers = false, .replicas = bench.replicas, .exact = bench.exact});
  ReplicaTeam team(job.group(),
                   {.replicas = bench.replicas, .on_switch = [&](int local) { model.enter_replica(local); }});
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(model, job, bench);
  const auto compute = [&](const Batch& input) {
    at::Tensor output;
    {
      const Autocast autocast(job.device().type(), amp);
      output = model(input.data);
    }
    at::Tensor loss = task.loss(output, input);
    loss.backward();
    return loss.detach();
  };
  std::optional<StepGraph> graph;
  if (bench.cuda_graph) graph = step_graph(model, job, team, compute);
  const auto step = [&] {
    optimizer->zero_grad();
    model.sync_buffers();
    team.run([&](Replica&) { graph ? graph->run(batch, 0) : compute(batch); });
    optimizer->step();
    wait_for_device(*net);
  };
  if (bench.recorder_cost) return report_recorder(job, bench, measure_recorder(bench.repeats, step));
  const StepTime time = time_steps(bench, step);
  if (graph && !graph->recorded()) throw ResourceError("no CUDA graph was recorded: " + graph->fallback());
  const double seconds = time.seconds;
  const double images_per_s = static_cast<double>(bench.batch * team.replicas()) / seconds;
  if (bench.json) {
    job.print(
        R"({{"bench": "captcha_step", "model": "{}", "backend": "{}", "ranks": {}, "replicas": {}, )"
        R"("exact": {}, "zero": {}, "cuda_graph": {}, "fused_layers": {}, "threads": 1, "batch": {}, "bf16": {}, "channels_last": {}, "device": "{}", "parameters": {}, "median_ms": {:.3f}, )"
        R"("images_per_s": {:.3f}, "collective_cpu_share": {:.5f}}})",
        bench.model, job.backend(), job.world_size(), team.replicas(), bench.exact, bench.zero, bench.cuda_graph,
        bench.fused_layers, bench.batch, bench.amp == "bf16", bench.channels_last,
        job.device().is_cuda() ? "cuda" : "cpu", parameter_count(*net), seconds * 1e3, images_per_s,
        time.collective_share);
  } else {
    job.print(
        "{}, {} replicas x {} images on {} ranks, {}: {:.1f} ms per step, {:.1f} images/s, collectives take {:.1f} % "
        "of the CPU seconds",
        bench.model, team.replicas(), bench.batch, job.world_size(), bench.amp == "none" ? "float32" : "bf16",
        seconds * 1e3, images_per_s, time.collective_share * 100);
  }
  return 0;
}

}  // namespace lockstep::worker
