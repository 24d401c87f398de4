// SPDX-License-Identifier: Apache-2.0
// `lockstep doctor kernels`: runs a few training steps of a network and shows the kernel of each layer.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <fmt/format.h>
#include <unistd.h>

#include "common/cli.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/observe/profiler.h"
#include "lockstep/tensor/device.h"
#include "lockstep/view/kernel_report.h"
#include "lockstep/view/terminal.h"
#include "worker/bench/timed_recipe.h"
#include "worker/commands.h"
#include "worker/doctor/kernel_machine.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

struct KernelsArguments {
  std::string what;
  std::string batch;
  std::string amp;
  std::vector<std::string> sets;
  std::int64_t steps = 5;
  bool json = false;
};

/// The options converted to settings, followed by those of --set, which take precedence.
std::vector<std::string> settings_of(const KernelsArguments& given) {
  std::vector<std::string> sets;
  if (!given.batch.empty()) sets.push_back("batch_size=" + given.batch);
  if (!given.amp.empty()) sets.push_back("amp=" + given.amp);
  sets.insert(sets.end(), given.sets.begin(), given.sets.end());
  return sets;
}

/// Returns a recipe, a preset or a settings file unchanged. For a saved network, returns the settings beside its
/// weights, which determine its shapes.
std::string settings_file(const std::string& what) {
  const bool is_file = what.ends_with(".yml") || what.ends_with(".yaml");
  const std::string path = what.substr(0, what.find(':'));
  if (is_file || !FileSystem::system().exists(path)) return what;
  const Checkpoint checkpoint = load_checkpoint(what);
  if (checkpoint.text("config.yml")) return (checkpoint.path() / "config.yml").string();
  throw DataError(fmt::format("{} does not contain the settings it was trained with", checkpoint.path().string()),
                  "only checkpoints of `lockstep train` contain settings");
}

/// The training data of a settings file if the data still exist, because the classes and sizes may come from them.
/// Otherwise the steps use synthetic data.
std::vector<std::string> data_settings(const std::string& file) {
  if (!file.ends_with(".yml") && !file.ends_with(".yaml")) return {};
  const ConfigTree tree = ConfigTree::from_file(file);
  const auto found = tree.values().find("data.train");
  if (found == tree.values().end() || found->second.yaml.empty()) return {};
  const std::string& data = found->second.yaml;
  if (!data.starts_with("scenes") && !FileSystem::system().exists(data)) return {};
  return {"data.train=" + data};
}

void require_processor_precision(const TrainConfig& config) {
  if (config.amp != "fp16") return;
  throw UsageError("amp is fp16, but this command examines the CPU", "--amp bf16, or --amp none");
}

view::Profile profile_steps(Job& job, TimedRecipe& timed, std::int64_t steps) {
  observe::Profiler profiler(
      job, {.steps = steps, .warmup = 2, .parameters = timed.timer->parameters(), .inputs = true, .prints = false});
  while (!profiler.is_finished()) {
    (void)timed.timer->run(1);
    profiler.step();
  }
  return profiler.profile();
}

int run_kernels(Job& job, const KernelsArguments& given) {
  if (tensor::cuda_device_count() > 0) {
    log::note("this command examines the CPU; for a GPU: lockstep bench step {} --device cuda --profile 5", given.what);
  }
  const std::string from = settings_file(given.what);
  std::vector<std::string> sets = data_settings(from);
  for (std::string& set : settings_of(given)) sets.push_back(std::move(set));
  require_processor_precision(Settings(from, sets).config());
  TimedRecipe timed(job, from, sets);
  const TrainConfig& config = timed.settings.config();
  view::KernelSettings settings{.network = given.what,
                                .batch = config.batch_size.value(),
                                .amp = config.amp,
                                .channels_last = config.channels_last,
                                .fused_layers = config.fused_layers};
  const view::KernelMachine machine = measure_kernel_machine(config.threads);
  const view::KernelReport report =
      view::kernel_report(profile_steps(job, timed, given.steps), std::move(settings), machine);
  if (given.json) {
    cli::print_json(view::kernels_json(report));
  } else {
    job.print("{}", view::kernels_text(report, view::terminal_width(STDOUT_FILENO), view::use_color(STDOUT_FILENO)));
  }
  return 0;
}

cli::CommandText kernels_help() {
  return {.name = "lockstep doctor kernels",
          .description =
              "Show which kernels compute the layers of a network on this processor, and what is known to be "
              "slow.\n\nThe command runs a few training steps on data in memory, as `lockstep bench step` does, and "
              "sorts the layers by the time they lose compared with the measured peak of matrix products and memory. "
              "The lines below the table say which settings to change.",
          .examples = {"lockstep doctor kernels captcha:conv3 --amp bf16",
                       "lockstep doctor kernels runs/digits:best --batch 16 --json"}};
}

}  // namespace

int cmd_kernels(const Arguments& arguments) {
  KernelsArguments given;
  CLI::App app;
  cli::prepare(app, kernels_help());
  app.add_option("NETWORK", given.what,
                 "a recipe, a recipe with a preset (RECIPE:PRESET), a .yml file, or one of these paths: a run folder, "
                 "a step folder, RUN:NAME")
      ->required();
  app.add_option("--batch", given.batch, "images in a batch (batch_size)")
      ->type_name("N")
      ->default_str("the network's");
  app.add_option("--amp", given.amp, "the mixed precision to use")
      ->check(cli::one_of({"none", "bf16", "fp16"}))
      ->type_name("none|bf16|fp16")
      ->default_str("the network's");
  app.add_option("--set", given.sets, kSetHelp)->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_option("--steps", given.steps, "number of measured steps, after two warm-up steps")
      ->check(cli::whole({1, 10'000}))
      ->type_name("N");
  app.add_flag("--json", given.json, "print one JSON object instead of text");
  if (!cli::parse(app, arguments)) return 0;
  return with_job({.device = "cpu"}, [&](Job& job) { return run_kernels(job, given); });
}

}  // namespace lockstep::worker
