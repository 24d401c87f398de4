// SPDX-License-Identifier: Apache-2.0
// `lockstep plan`: predicts the speed of a run on other machines by simulating measured steps.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/launch/measured_run.h"
#include "lockstep/launch/processes.h"
#include "lockstep/plan/plan.h"
#include "lockstep/simulate/advice.h"
#include "lockstep/verbs.h"

namespace lockstep::apps {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct PlanOptions {
  std::string source;
  int gpus = 0;
  int nodes = 1;
  std::string link;
  std::string local_link;
  std::string backend = "auto";
  std::optional<std::int64_t> bucket_cap_mb;
  std::optional<double> message_us;
  std::int64_t batch = 0;
  bool is_even = false;
  bool json = false;
};

cli::CommandText help() {
  return {.name = "lockstep plan",
          .description =
              "Predict how fast a run would be on other machines, from measured steps.\n\nThe steps come from a run's "
              "flight rings, or from running a recipe on this machine. Each rank's steps are simulated, collective by "
              "collective, as the reducer orders them and the backend sends them. Prints the scaling curve up to 1,024 "
              "ranks, what limits a step, the best bucket size, and whether another backend, ZeRO-1 or a communication "
              "hook would pay off.",
          .examples = {"lockstep plan runs/digits --gpus 8 --nodes 16 --link 100Gb/5us",
                       "lockstep plan detection:smoke --gpus 2 --nodes 4 --link links.json",
                       "lockstep plan runs/digits --gpus 2 --nodes 4 --link 1Gb/100us --backend tcp --json"}};
}

/// Translates the backend's old name, which scripts may use. Returns an empty string: there is no problem.
std::string rename_gloo(std::string& backend) {
  const std::size_t at = backend == "gloo" || backend == "shm+gloo" ? backend.rfind("gloo") : std::string::npos;
  if (at == std::string::npos) return {};
  const std::string old = std::exchange(backend, backend.substr(0, at) + "tcp");
  log::note("the backend {} is now called {}", old, backend);
  return {};
}

void add_options(CLI::App& app, PlanOptions& options) {
  app.add_option("SOURCE", options.source,
                 "the folder of a run with at least two ranks, a log folder printed by lockstep run, RECIPE, "
                 "RECIPE:PRESET or FILE.yml")
      ->required();
  app.add_option("--gpus", options.gpus, "ranks per machine")
      ->check(cli::whole({1, 1024}))
      ->type_name("N")
      ->default_str("as in the run");
  app.add_option("--nodes", options.nodes, "machines")->check(cli::whole({1, 1024}))->type_name("N");
  app.add_option("--link", options.link,
                 "network link of each machine: bandwidth and one-way latency, such as 100Gb/5us, or a file from "
                 "lockstep doctor --json; required for several machines")
      ->type_name("RATE/TIME|FILE");
  app.add_option("--local-link", options.local_link, "link between the ranks of a machine, for tcp and nccl")
      ->type_name("RATE/TIME")
      ->default_str("unlimited");
  app.add_option("--backend", options.backend, "backend that transfers the gradients")
      ->check(cli::one_of({"auto", "tcp", "shm", "shm+tcp", "nccl"}))
      ->transform(CLI::Validator(rename_gloo, ""))
      ->type_name("auto|tcp|shm|shm+tcp|nccl");
  app.add_option("--bucket-cap-mb", options.bucket_cap_mb, "plan buckets of this many MiB")
      ->check(cli::whole({1, 1 << 20}))
      ->type_name("N")
      ->default_str("as in the run");
  cli::add_number(app, "--message-us", options.message_us, "CPU time per message over a socket, in microseconds")
      ->type_name("X")
      ->default_str("measured here");
  app.add_option("--batch", options.batch, "images per rank in a step, also when a recipe is measured")
      ->check(cli::whole({1, 1 << 30}))
      ->type_name("N")
      ->default_str("as in the run or the recipe");
  app.add_flag("--even", options.is_even, "treat all ranks as equally fast instead of replaying the measured times");
  app.add_flag("--json", options.json, "print one JSON object");
}

simulate::Cluster cluster_of(const PlanOptions& options, const simulate::Workload& workload) {
  simulate::Cluster cluster{.gpus = options.gpus > 0 ? options.gpus : workload.ranks_per_machine,
                            .machines = options.nodes,
                            .backend = simulate::parse_backend(options.backend)};
  if (!options.link.empty()) cluster.network = read_link(options.link);
  if (!options.local_link.empty()) cluster.local = simulate::parse_link(options.local_link);
  if (options.link.empty() && options.nodes > 1) {
    throw UsageError(
        "--nodes needs --link",
        "add --link 100Gb/5us; to measure it: lockstep run --hosts A,B --nproc-per-node 1 -- lockstep doctor");
  }
  return cluster;
}

/// Reads a run's folder. Otherwise measures a recipe on this machine, on a single rank and on as many of the plan's
/// ranks as there are cores.
MeasuredRecipe measure_source(const PlanOptions& options) {
  std::error_code problem;
  if (std::filesystem::is_directory(options.source, problem)) {
    MeasuredRecipe run{.workload = read_measured_run(options.source)};
    if (options.batch > 0) run.workload.images = static_cast<double>(options.batch);
    return run;
  }
  const int cores = std::max(count_cpus(), 2);
  const int ranks = options.gpus > 0 ? std::clamp(options.gpus, 2, cores) : 2;
  log::note("measuring {} on {} ranks of this machine, and on a single rank", options.source, ranks);
  return measure_recipe(options.source, ranks, options.batch);
}

}  // namespace

int cmd_plan(int argc, char** argv) {
  PlanOptions options;
  CLI::App app;
  cli::prepare(app, help());
  add_options(app, options);
  if (!cli::parse(app, {argv + 1, argv + argc})) return 0;
  const MeasuredRecipe measured = measure_source(options);
  simulate::Workload workload = measured.workload;
  simulate::PlanRequest request{.cluster = cluster_of(options, workload), .simulation = {.is_even = options.is_even}};
  if (options.bucket_cap_mb) request.bucket_bytes = *options.bucket_cap_mb * kMiB;
  PlanSource source{.name = options.source, .alone_s = measured.alone_s};
  const MeasuredHost host = measure_host();
  request.cluster.host = host.costs;
  if (measured.alone_s > 0) {
    workload.alone = simulate::alone_share(workload, measured.alone_s, host.costs.copy_bytes_per_s);
  }
  if (options.message_us) request.cluster.host.message_s = *options.message_us * 1e-6;
  source.measured = host_text(request.cluster.host);
  const simulate::Plan plan = simulate::make_plan(workload, request);
  if (options.json) {
    cli::print_json(plan_json(source, workload, plan));
  } else {
    cli::print(plan_text(source, workload, plan));
  }
  require_output();
  return 0;
}

}  // namespace lockstep::apps
