// SPDX-License-Identifier: Apache-2.0
// `lockstep bench all-reduce|checkpoint|loader|memory|optimizer|step`: the measurements, as text or one JSON object a
// line.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <cstring>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/threads.h"
#include "worker/bench/bench_checkpoint.h"
#include "worker/bench/bench_loader.h"
#include "worker/bench/bench_optimizer.h"
#include "worker/bench/bench_step.h"
#include "worker/bench/measure.h"
#include "worker/commands.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kLarge = std::int64_t{8} << 20;  // bytes; from here on fewer repeats are enough
constexpr const char* kProcesses = "ranks on this machine, one thread each (default: 1)";

struct AllReduceArguments {
  std::vector<std::int64_t> bytes = {4096, 65536, 1 << 20, 4 << 20, 25 << 20, 100 << 20};
  std::string backend;
  std::string mode = "both";
  bool json = false;
};

/// A 99th percentile needs many, and small messages are cheap.
std::int64_t counted_runs(std::int64_t bytes) {
  if (bytes >= kLarge) return 15;
  return bytes <= 65536 ? 2000 : 200;
}

void measure_all_reduce(Job& job, const AllReduceArguments& bench, std::int64_t bytes, bool in_place) {
  const std::int64_t numel = bytes / static_cast<std::int64_t>(sizeof(float));
  at::Tensor tensor = in_place ? job.group().allocate_bucket(numel, at::kFloat) : at::ones({numel}, at::kFloat);
  tensor.fill_(1);
  job.barrier();
  const Timing timing = time_runs({.warmup = 2, .counted = counted_runs(bytes)},
                                  [&] { job.group().all_reduce(tensor, {.op = ReduceOp::kMean}).wait(); });
  const double seconds = timing.median;
  if (tensor.numel() > 0 && tensor[0].item<float>() != 1.0F) throw InternalError("the mean of ones is not one");
  const char* mode = in_place ? "in_place" : "copy";
  const double gb_per_s = static_cast<double>(bytes) / seconds / 1e9;
  if (bench.json) {
    job.print(
        R"({{"bench": "all_reduce", "backend": "{}", "ranks": {}, "bytes": {}, "mode": "{}", "median_us": {:.3f}, )"
        R"("p99_us": {:.3f}, "gb_per_s": {:.4f}}})",
        job.backend(), job.world_size(), bytes, mode, seconds * 1e6, timing.p99 * 1e6, gb_per_s);
  } else {
    job.print("{:>10}  {:<8}  {:>12.1f} us  99 % {:>12.1f} us  {:>8.2f} GB/s",
              text::bytes(static_cast<std::uint64_t>(bytes)), mode, seconds * 1e6, timing.p99 * 1e6, gb_per_s);
  }
}

int run_all_reduce(Job& job, const AllReduceArguments& bench) {
  tensor::set_threads(1);
  if (!bench.json) job.print("all_reduce of float32 on {} ranks, backend {}", job.world_size(), job.backend());
  for (const std::int64_t bytes : bench.bytes) {
    if (bench.mode != "copy") measure_all_reduce(job, bench, bytes, true);
    if (bench.mode != "in_place") measure_all_reduce(job, bench, bytes, false);
  }
  return 0;
}

int all_reduce(const Arguments& arguments) {
  AllReduceArguments bench;
  std::string processes;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep bench all-reduce",
                     .description = "Median time of an all-reduce of float32, for buckets in the shared segment "
                                    "(in_place) and for other tensors (copy).",
                     .example = "  lockstep bench all-reduce --nproc-per-node 2 --bytes 4096 104857600 --json"});
  app.add_option("--nproc-per-node", processes, kProcesses);
  app.add_option("--backend", bench.backend, "auto, local, shm, gloo or nccl (default: auto)");
  app.add_option("--bytes", bench.bytes, "message sizes (default: 4 KiB to 100 MiB)")
      ->check(cli::whole({1, std::int64_t{1} << 40}));
  app.add_option("--mode", bench.mode, "in_place, copy or both")->check(CLI::IsMember({"in_place", "copy", "both"}));
  app.add_flag("--json", bench.json, "one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.backend = bench.backend, .device = "cpu"}, [&](Job& job) { return run_all_reduce(job, bench); });
}

/// What copying memory reaches on all ranks at once: the yardstick of the large all-reduce.
int run_memory(Job& job, std::int64_t bytes, bool json) {
  tensor::set_threads(1);
  const at::Tensor from = at::ones({bytes}, at::kByte);
  const at::Tensor to = at::ones({bytes}, at::kByte);
  job.barrier();
  const double own =
      median_seconds({.warmup = 2, .counted = 15}, [&] { std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes()); });
  at::Tensor rate = at::full({1}, static_cast<double>(bytes) / own / 1e9, at::kDouble);
  job.group().all_reduce(rate).wait();
  if (json) {
    job.print(R"({{"bench": "memory", "ranks": {}, "bytes": {}, "gb_per_s": {:.4f}}})", job.world_size(), bytes,
              rate.item<double>());
  } else {
    job.print("memcpy of {} on {} ranks at once: {:.2f} GB/s together", text::bytes(static_cast<std::uint64_t>(bytes)),
              job.world_size(), rate.item<double>());
  }
  return 0;
}

int memory(const Arguments& arguments) {
  std::int64_t bytes = std::int64_t{100} << 20;
  std::string processes;
  bool json = false;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep bench memory",
                .description = "Rate of memcpy on all ranks at once, in bytes copied a second: what bounds a large "
                               "all-reduce in shared memory.",
                .example = "  lockstep bench memory --nproc-per-node 2"});
  app.add_option("--nproc-per-node", processes, kProcesses);
  app.add_option("--bytes", bytes, "of each copy (default: 100 MiB)")->check(cli::whole({1, std::int64_t{1} << 40}));
  app.add_flag("--json", json, "one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.device = "cpu"}, [&](Job& job) { return run_memory(job, bytes, json); });
}

int checkpoint(const Arguments& arguments) {
  CheckpointBench bench;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep bench checkpoint",
                     .description = "Median times of saving and loading the captcha network with its AdamW, and of the "
                                    "pause that an asynchronous save costs a step, beside a plain copy of the state.",
                     .example = "  lockstep bench checkpoint /tmp/bench-checkpoint --json"});
  app.add_option("folder", bench.folder, "where to write; must not hold anything, and is removed")->required();
  app.add_option("--repeats", bench.repeats, "counted runs (default: 5)")->check(cli::whole({1, 1'000'000}));
  app.add_flag("--json", bench.json, "one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  return run_checkpoint_bench(bench);
}

int optimizer(const Arguments& arguments) {
  OptimizerBench bench;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep bench optimizer",
                     .description = "Median time of an optimizer's step on the captcha network's parameters, in turn "
                                    "with a kernel that only reads four such arrays and writes three (stream_4r3w).",
                     .example = "  lockstep bench optimizer --optimizer adamw sgd_momentum --json"});
  app.add_option("--optimizer", bench.optimizers, "which, in this order (default: all)")
      ->check(CLI::IsMember(optimizer_bench_names()));
  app.add_option("--repeats", bench.repeats, "counted steps of each (default: 9)")->check(cli::whole({1, 1'000'000}));
  app.add_option("--threads", bench.threads, "of libtorch (default: 1)")->check(cli::whole({1, 4096}));
  app.add_flag("--json", bench.json, "one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  return run_optimizer_bench(bench);
}

int step_captcha(const Arguments& arguments) {
  StepBench bench;
  std::string backend;
  std::string device = "cpu";
  std::string processes;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep bench step captcha",
                     .description = "Median time of a training step of the captcha network on random input.",
                     .example = "  lockstep bench step captcha --nproc-per-node 2 --batch 64 --amp bf16 --json"});
  app.add_option("--nproc-per-node", processes, kProcesses);
  app.add_option("--backend", backend, "auto, local, shm, gloo or nccl (default: auto)");
  app.add_option("--device", device, "cpu, cuda or auto (default: cpu)");
  app.add_option("--batch", bench.batch, "images per replica (default: 64)")->check(cli::whole({1, 10'000'000}));
  app.add_option("--replicas", bench.replicas, "several replicas per rank, in turn (default: one per rank)")
      ->check(cli::whole({1, 1'000'000}));
  app.add_flag("!--inexact", bench.exact, "sums in any order that is fast, not in the one that no world size changes");
  app.add_option("--amp", bench.amp, "none or bf16 (default: none)")->check(CLI::IsMember({"none", "bf16"}));
  app.add_flag("!--no-channels-last", bench.channels_last, "images and weights in libtorch's default layout");
  app.add_flag("!--plain-layers", bench.fused_layers, "libtorch's separate layers, as fused_layers=false");
  app.add_option("--model", bench.model, "conv7 or conv3 (default: conv7)")->check(CLI::IsMember({"conv7", "conv3"}));
  app.add_flag("--zero", bench.zero, "each rank updates its part of the parameters, as optimizer.zero does");
  app.add_flag("--cuda-graph", bench.cuda_graph, "record forward and backward and replay them, as cuda_graph does");
  app.add_option("--repeats", bench.repeats, "counted steps (default: 7)")->check(cli::whole({1, 1'000'000}));
  app.add_flag("--json", bench.json, "one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.backend = backend, .device = device}, [&](Job& job) { return run_step_bench(job, bench); });
}

int step(const Arguments& arguments) {
  return cli::dispatch("lockstep bench step", {{"captcha", "the captcha network", step_captcha}}, arguments);
}

struct LoaderVerb {
  const char* name;
  const char* description;
  const char* example;
  int (*run)(const LoaderBench&);
};

int loader_verb(const LoaderVerb& verb, const Arguments& arguments) {
  const std::string name = verb.name;
  LoaderBench bench;
  CLI::App app;
  const std::string title = "lockstep bench loader " + name;
  cli::prepare(app, {.name = title, .description = verb.description, .example = verb.example});
  if (name == "noop") {
    app.add_option("--size", bench.size, "samples (default: 100,000)")->check(cli::whole({1, 1'000'000'000}));
  } else {
    app.add_option("path", bench.path, "a folder, list, tar or packed file of pictures")->required();
  }
  if (name == "imagenet")
    app.add_option("--crop", bench.crop, "pixels a side (default: 224)")->check(cli::whole({1, 8192}));
  app.add_option("--batch", bench.batch, "samples (default: 64)")->check(cli::whole({1, 10'000'000}));
  app.add_option("--workers", bench.workers, "loader threads; 0: none (default: 2)")->check(cli::whole({0, 4096}));
  app.add_option("--prefetch-factor", bench.prefetch, "batches ahead per thread (default: 2)")
      ->check(cli::whole({1, 10'000}));
  app.add_option("--epochs", bench.epochs, "each is a figure (default: 3)")->check(cli::whole({1, 1'000'000}));
  app.add_flag("--json", bench.json, "one JSON object a line");
  if (!cli::parse(app, arguments)) return 0;
  return verb.run(bench);
}

int loader_captcha(const Arguments& arguments) {
  return loader_verb({"captcha", "Images/s of gray pictures as floats, every file decoded in every epoch.",
                      "  lockstep bench loader captcha data/train --workers 2", bench_captcha_loader},
                     arguments);
}

int loader_imagenet(const Arguments& arguments) {
  return loader_verb({"imagenet", "Images/s of random resized crops, flipped and normalised.",
                      "  lockstep bench loader imagenet data/train.pack --workers 2", bench_imagenet_loader},
                     arguments);
}

int loader_noop(const Arguments& arguments) {
  return loader_verb({"noop", "What the loader itself costs: samples that are one number each.",
                      "  lockstep bench loader noop --workers 2", bench_noop_loader},
                     arguments);
}

int loader(const Arguments& arguments) {
  return cli::dispatch("lockstep bench loader",
                       {{"captcha", "gray pictures as floats", loader_captcha},
                        {"imagenet", "random resized crops, flipped and normalised", loader_imagenet},
                        {"noop", "samples that cost nothing", loader_noop}},
                       arguments);
}

}  // namespace

int cmd_bench(const Arguments& arguments) {
  return cli::dispatch("lockstep bench",
                       {{"all-reduce", "the collective under DistributedDataParallel", all_reduce},
                        {"checkpoint", "saving and loading", checkpoint},
                        {"loader", "the data loader", loader},
                        {"memory", "what copying memory reaches, to compare with", memory},
                        {"optimizer", "an optimizer's step", optimizer},
                        {"step", "a whole training step", step}},
                       arguments);
}

}  // namespace lockstep::worker
