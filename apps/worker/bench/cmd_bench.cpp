// SPDX-License-Identifier: Apache-2.0
// `lockstep bench all-reduce|checkpoint|loader|memory|optimizer|peak|startup|step`: the measurements, as text or as one
// JSON object per line.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "common/cli.h"
#include "common/launch_options.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/observe/machine_rates.h"
#include "lockstep/tensor/threads.h"
#include "worker/bench/benches.h"
#include "worker/bench/measure.h"
#include "worker/commands.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kLarge = std::int64_t{8} << 20;  // bytes; from this size, fewer repeats are enough
constexpr const char* kJsonHelp = "print one JSON object per line instead of text";

struct AllReduceArguments {
  std::vector<std::int64_t> bytes = {4096, 65536, 1 << 20, 4 << 20, 25 << 20, 100 << 20};
  JoinArguments join{.device = "cpu"};
  std::string mode = "both";
  bool json = false;
};

struct PeakBench {
  std::int64_t size = 1024;
  std::int64_t threads = 1;
  double seconds = 1;
  bool json = false;
};

/// The number of counted runs: a 99th percentile needs many runs, and small messages are cheap.
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
    job.print(R"({{"bench": "all_reduce", "backend": "{}", "ranks": {}, "bytes": {}, "mode": "{}", "median_us": {}, )"
              R"("p99_us": {}, "gb_per_s": {}}})",
              job.backend(), job.world_size(), bytes, mode, text::json_number(seconds * 1e6, 3),
              text::json_number(timing.p99 * 1e6, 3), text::json_number(gb_per_s, 4));
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
  CLI::App app;
  cli::prepare(app, {.name = "lockstep bench all-reduce",
                     .description = "Measure an all-reduce of float32, with one thread per rank.",
                     .examples = {"lockstep bench all-reduce --nproc-per-node 2 --bytes 4096 104857600 --json"}});
  app.add_option("--bytes", bench.bytes, "the sizes of the messages, in bytes")
      ->check(cli::whole({1, std::int64_t{1} << 40}))
      ->type_name("N")
      ->default_str("six sizes from 4 KiB to 100 MiB");
  app.add_option("--mode", bench.mode, "measure a bucket in shared memory (in_place), any other tensor (copy), or both")
      ->check(cli::one_of({"in_place", "copy", "both"}))
      ->type_name("in_place|copy|both");
  app.add_flag("--json", bench.json, kJsonHelp);
  cli::describe_processes(app);
  add_backend_options(app, bench.join);
  if (!cli::parse(app, arguments)) return 0;
  return with_job(bench.join, [&](Job& job) { return run_all_reduce(job, bench); });
}

/// Measures memory copies on all ranks at once, for comparison with the large all-reduce.
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
    job.print(R"({{"bench": "memory", "ranks": {}, "bytes": {}, "gb_per_s": {}}})", job.world_size(), bytes,
              text::json_number(rate.item<double>(), 4));
  } else {
    job.print("memcpy of {} on {} ranks at once: {:.2f} GB/s in total", text::bytes(static_cast<std::uint64_t>(bytes)),
              job.world_size(), rate.item<double>());
  }
  return 0;
}

int memory(const Arguments& arguments) {
  std::int64_t bytes = std::int64_t{100} << 20;
  bool json = false;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep bench memory",
                .description = "Measure how fast all ranks copy memory at once, with one thread each.\n\nThe rate "
                               "counts bytes copied per second; no large all-reduce in shared memory can be faster.",
                .examples = {"lockstep bench memory --nproc-per-node 2"}});
  app.add_option("--bytes", bytes, "the bytes of each copy")
      ->check(cli::whole({1, std::int64_t{1} << 40}))
      ->type_name("N");
  app.add_flag("--json", json, kJsonHelp);
  cli::describe_processes(app);
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.device = "cpu"}, [&](Job& job) { return run_memory(job, bytes, json); });
}

/// Measures matrix products on all ranks at once, for comparison with a training step.
int run_peak(Job& job, const PeakBench& bench) {
  tensor::set_threads(static_cast<int>(bench.threads));
  for (const auto& [type, name] : {std::pair{at::kFloat, "float32"}, std::pair{at::kBFloat16, "bf16"}}) {
    job.barrier();
    const double own = observe::peak_flops_per_s({.type = type, .size = bench.size, .seconds = bench.seconds});
    at::Tensor rate = at::full({1}, own / 1e9, at::kDouble);
    job.group().all_reduce(rate).wait();
    if (bench.json) {
      job.print(R"({{"bench": "peak", "ranks": {}, "threads": {}, "type": "{}", "size": {}, "gflop_per_s": {}}})",
                job.world_size(), bench.threads, name, bench.size, text::json_number(rate.item<double>(), 3));
    } else {
      job.print("{:<8} products of {} x {} on {} rank{}: {:>10.2f} GFLOP/s in total", name, bench.size, bench.size,
                job.world_size(), job.world_size() == 1 ? "" : "s at once", rate.item<double>());
    }
  }
  return 0;
}

int peak(const Arguments& arguments) {
  PeakBench bench;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep bench peak",
                     .description = "Measure how fast all ranks multiply matrices at once, in float32 and in "
                                    "bf16.\n\nThe rate counts a multiplication and an addition as two operations. "
                                    "`lockstep train --profile N` shows what share of it a training step reaches.",
                     .examples = {"lockstep bench peak --nproc-per-node 2"}});
  app.add_option("--size", bench.size, "rows and columns of the matrices")
      ->check(cli::whole({1, 32768}))
      ->type_name("N");
  app.add_option("--threads", bench.threads, "libtorch threads on each rank")
      ->check(cli::whole({1, 4096}))
      ->type_name("N");
  app.add_flag("--json", bench.json, kJsonHelp);
  cli::describe_processes(app);
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.device = "cpu"}, [&](Job& job) { return run_peak(job, bench); });
}

int checkpoint(const Arguments& arguments) {
  CheckpointBench bench;
  CLI::App app;
  cli::prepare(
      app, {.name = "lockstep bench checkpoint",
            .description =
                "Measure how long it takes to save and load the captcha network with its AdamW state.\n\nAlso measures "
                "how long an asynchronous save blocks a step, and a plain copy of the state for comparison.",
            .examples = {"lockstep bench checkpoint /tmp/bench-checkpoint --json"}});
  app.add_option("FOLDER", bench.folder, "the folder to write, which must be new or empty; it is removed at the end")
      ->required();
  app.add_option("--repeats", bench.repeats, "number of measured runs")
      ->check(cli::whole({1, 1'000'000}))
      ->type_name("N");
  app.add_flag("--json", bench.json, kJsonHelp);
  if (!cli::parse(app, arguments)) return 0;
  return run_checkpoint_bench(bench);
}

int optimizer(const Arguments& arguments) {
  OptimizerBench bench;
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep bench optimizer",
       .description = "Measure the step of each optimizer on the parameters of the captcha network.\n\nSteps alternate "
                      "with a kernel that only reads four arrays of the same size and writes three (stream_4r3w).",
       .examples = {"lockstep bench optimizer --optimizer adamw sgd_momentum --json"}});
  app.add_option("--optimizer", bench.optimizers, "the optimizers to measure")
      ->check(cli::one_of(optimizer_bench_names()))
      ->type_name(text::join(optimizer_bench_names(), "|"))
      ->default_str("all");
  app.add_option("--repeats", bench.repeats, "number of measured steps of each")
      ->check(cli::whole({1, 1'000'000}))
      ->type_name("N");
  app.add_option("--threads", bench.threads, "libtorch threads")->check(cli::whole({1, 4096}))->type_name("N");
  app.add_flag("--json", bench.json, kJsonHelp);
  if (!cli::parse(app, arguments)) return 0;
  return run_optimizer_bench(bench);
}

int startup(const Arguments& arguments) {
  std::int64_t repeats = 10;
  bool json = false;
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep bench startup",
       .description =
           "Measure how long ranks take from the command to the end of their first training step.\n\nThe step trains a "
           "small linear layer under DistributedDataParallel. One warm-up start, which is not counted, comes first.",
       .examples = {"lockstep bench startup --nproc-per-node 2 --json"}});
  app.add_option("--repeats", repeats, "number of measured starts")->check(cli::whole({1, 10'000}))->type_name("N");
  app.add_flag("--json", json, kJsonHelp);
  cli::describe_processes(app);
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.device = "cpu"}, [](Job& job) { return run_startup_bench(job); });
}

/// The options given; most of them are settings of the recipe.
struct StepArguments {
  StepBench bench;
  std::string batch;
  std::string model;
  std::string amp;
  std::string replicas;
  bool exact = true;
  bool channels_last = true;
  bool fused_layers = true;
  bool zero = false;
  bool cuda_graph = false;
  JoinArguments join{.device = "cpu"};
};

/// The options converted to settings, followed by those of --set, which take precedence.
std::vector<std::string> step_settings(const StepArguments& given) {
  std::vector<std::string> sets;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) sets.push_back(fmt::format("{}={}", key, value));
  };
  add("batch_size", given.batch);
  add("model.type", given.model);
  add("amp", given.amp);
  add("replicas", given.replicas);
  if (!given.exact) sets.emplace_back("exact=false");
  if (!given.channels_last) sets.emplace_back("channels_last=false");
  if (!given.fused_layers) sets.emplace_back("fused_layers=false");
  if (given.zero) sets.emplace_back("optimizer.zero=true");
  if (given.cuda_graph) sets.emplace_back("cuda_graph=true");
  sets.insert(sets.end(), given.bench.sets.begin(), given.bench.sets.end());
  return sets;
}

void add_step_options(CLI::App& app, StepArguments& given) {
  StepBench& bench = given.bench;
  app.add_option("RECIPE", bench.recipe, kRecipeHelp)->required();
  app.add_option("--set", bench.sets, kSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--batch", given.batch, "images per replica (batch_size)")->type_name("N");
  app.add_option("--model", given.model, "the network (captcha's model.type)")->type_name("conv7|conv3");
  app.add_option("--amp", given.amp, "the mixed precision to use")
      ->check(cli::one_of({"none", "bf16", "fp16"}))
      ->type_name("none|bf16|fp16")
      ->default_str("the recipe's");
  app.add_option("--repeats", bench.repeats, "number of measured steps")
      ->check(cli::whole({1, 1'000'000}))
      ->type_name("N");
  app.add_option("--profile", bench.profile, "afterwards, profile this many steps and print the tables")
      ->check(cli::whole({0, 100'000}))
      ->type_name("N")
      ->default_str("none");
  app.add_flag("!--inexact", given.exact,
               "sum gradients in any order; the last bits of the result then depend on the number of ranks");
  app.add_flag("!--no-channels-last", given.channels_last, "keep images and weights in libtorch's default layout");
  app.add_flag("!--plain-layers", given.fused_layers, "use libtorch's separate layers, as fused_layers=false does");
  app.add_option("--data-parallel", bench.data_parallel,
                 "measure DataParallel with N replicas of captcha as threads of one process instead of ranks")
      ->check(cli::whole({1, 4096}))
      ->type_name("N");
  app.add_flag("--zero", given.zero, "let each rank update its part of the parameters, as optimizer.zero does");
  app.add_flag("--cuda-graph", given.cuda_graph, "record forward and backward and replay them, as cuda_graph does");
  app.add_flag("--recorder-cost", bench.recorder_cost,
               "compare --repeats pairs of steps, with and without the flight recorder and the step report, which are "
               "always on");
  app.add_flag("--digest-cost", bench.digest_cost,
               "compare --repeats pairs of updates, with and without step digests, and print what share of a step the "
               "digests take");
  app.add_flag("--json", bench.json, kJsonHelp);
  app.add_flag("--shapes", bench.shapes, "add the shapes of the parameters to --json, in the order of registration");
}

int step(const Arguments& arguments) {
  StepArguments given;
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep bench step",
       .description = "Measure a training step of a recipe, from the forward pass to the moving average.\n\nThe data "
                      "are in memory: data.train if it is given, otherwise synthetic scenes or random images. Each "
                      "rank has one thread unless the setting `threads` says otherwise. The learning rate is 0.",
       .examples = {"lockstep bench step captcha --nproc-per-node 2 --batch 64 --amp bf16 --json",
                    "lockstep bench step detection:scenes --nproc-per-node 2 --profile 5"}});
  add_step_options(app, given);
  cli::describe_processes(app);
  app.add_option("--replicas", given.replicas, "total number of replicas; a rank runs its replicas one after another")
      ->type_name("N")
      ->default_str("one per rank")
      ->group(cli::kRanks);
  add_backend_options(app, given.join);
  add_device_option(app, given.join.device);
  if (!cli::parse(app, arguments)) return 0;
  given.bench.sets = step_settings(given);
  return with_job(given.join, [&](Job& job) { return run_step_bench(job, given.bench); });
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
  cli::prepare(app, {.name = title, .description = verb.description, .examples = {verb.example}});
  if (name == "noop") {
    app.add_option("--size", bench.size, "samples in the data set")
        ->check(cli::whole({1, 1'000'000'000}))
        ->type_name("N");
  } else {
    app.add_option("DATA", bench.path, "a folder, list, tar file or packed file of images")->required();
  }
  if (name == "imagenet") {
    app.add_option("--crop", bench.crop, "the width and height of a crop, in pixels")
        ->check(cli::whole({1, 8192}))
        ->type_name("N");
  }
  app.add_option("--batch", bench.batch, "samples in a batch")->check(cli::whole({1, 10'000'000}))->type_name("N");
  app.add_option("--workers", bench.workers, "loader threads; 0 loads in the main thread")
      ->check(cli::whole({0, 4096}))
      ->type_name("N");
  app.add_option("--prefetch-factor", bench.prefetch, "batches that each thread loads ahead")
      ->check(cli::whole({1, 10'000}))
      ->type_name("N");
  app.add_option("--epochs", bench.epochs, "epochs to read, each measured on its own")
      ->check(cli::whole({1, 1'000'000}))
      ->type_name("N");
  app.add_flag("--json", bench.json, kJsonHelp);
  if (!cli::parse(app, arguments)) return 0;
  return verb.run(bench);
}

int loader_captcha(const Arguments& arguments) {
  return loader_verb(
      {"captcha",
       "Measure how many gray images per second are loaded as floats, with every image decoded in every epoch.",
       "lockstep bench loader captcha data/train --workers 2", bench_captcha_loader},
      arguments);
}

int loader_imagenet(const Arguments& arguments) {
  return loader_verb(
      {"imagenet", "Measure how many images per second are loaded as random resized crops, flipped and normalised.",
       "lockstep bench loader imagenet data/train.pack --workers 2", bench_imagenet_loader},
      arguments);
}

int loader_noop(const Arguments& arguments) {
  return loader_verb({"noop", "Measure the overhead of the loader itself, with samples of one number each.",
                      "lockstep bench loader noop --workers 2", bench_noop_loader},
                     arguments);
}

int loader(const Arguments& arguments) {
  return cli::dispatch({.name = "lockstep bench loader",
                        .description = "Measure the data loader.",
                        .examples = {"lockstep bench loader captcha data/train --workers 2"}},
                       {{"captcha", "load gray images as floats", loader_captcha},
                        {"imagenet", "load random resized crops, flipped and normalised", loader_imagenet},
                        {"noop", "load samples that cost nothing", loader_noop}},
                       arguments);
}

}  // namespace

int cmd_bench(const Arguments& arguments) {
  return cli::dispatch(
      {.name = "lockstep bench",
       .description = "Measure all-reduce, training steps, loading, saving and startup on this machine.",
       .examples = {"lockstep bench all-reduce --nproc-per-node 2",
                    "lockstep bench step captcha --nproc-per-node 2 --json"}},
      {{"all-reduce", "measure the collective under DistributedDataParallel", all_reduce},
       {"checkpoint", "measure saving and loading a checkpoint", checkpoint},
       {"loader", "measure the data loader", loader},
       {"memory", "measure memory copies, to compare all-reduce with", memory},
       {"optimizer", "measure the step of an optimizer", optimizer},
       {"peak", "measure matrix products, to compare steps with", peak},
       {"startup", "measure how soon ranks finish their first step", startup},
       {"step", "measure a whole training step", step}},
      arguments);
}

}  // namespace lockstep::worker
