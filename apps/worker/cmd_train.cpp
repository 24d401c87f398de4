// SPDX-License-Identifier: Apache-2.0
// `lockstep train`, as one rank: settings from preset, file and --set; then the Trainer.
#include <fmt/format.h>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/trainer.h"
#include "worker/commands.h"

namespace lockstep::worker {
namespace {

struct TrainArguments {
  std::string what;
  std::vector<std::string> sets;
  std::string run_dir;
  std::string init_from;
  std::string backend;
  std::string device;
};

bool parse(TrainArguments& train, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep train",
                     .description = "Trains a recipe. Without --nproc-per-node it uses every visible GPU, or one "
                                    "process where there is none.",
                     .example = "  lockstep generate captcha --out data/train --count 8000 --seed 1 --charset 0-9\n"
                                "  lockstep train captcha:digits --nproc-per-node 2 --set data.train=data/train"});
  app.add_option("recipe", train.what, "RECIPE, RECIPE:PRESET or FILE.yml (whose key `recipe` names one)")->required();
  app.add_option("--set", train.sets, "a setting, as key=value; may come again")->allow_extra_args(false);
  app.add_option("--run-dir", train.run_dir, "the run's folder (default: runs/<recipe>-<time>)");
  app.add_option("--init-from", train.init_from, "a checkpoint whose weights the model starts from");
  app.add_option("--backend", train.backend, "auto, local, shm or gloo (default: auto)");
  app.add_option("--device", train.device, "auto, cpu or cuda (default: auto)");
  return cli::parse(app, arguments);
}

// The settings before --set: a preset of the recipe, or a file.
struct Source {
  const Recipe* recipe = nullptr;
  ConfigTree tree;
};

Source open_preset(const std::string& what) {
  const std::size_t colon = what.find(':');
  Source source{&find_recipe(what.substr(0, colon)), {}};
  if (colon == std::string::npos) return source;
  const std::string preset = what.substr(colon + 1);
  const auto presets = source.recipe->presets();
  const auto found = presets.find(preset);
  if (found == presets.end()) {
    std::vector<std::string> names;
    for (const auto& [name, yaml] : presets) names.push_back(name);
    throw UsageError(fmt::format("{} has no preset '{}'{}; there is {}", source.recipe->name(), preset,
                                 text::did_you_mean(preset, names), text::join(names)));
  }
  source.tree = ConfigTree::from_text(found->second, fmt::format("{}:{}", source.recipe->name(), preset));
  return source;
}

Source open_source(const std::string& what) {
  const bool is_file = what.ends_with(".yml") || what.ends_with(".yaml");
  if (!is_file) return open_preset(what);
  Source source{nullptr, ConfigTree::from_file(what)};
  const auto recipe = source.tree.values().find("recipe");
  if (recipe == source.tree.values().end()) {
    throw UsageError(fmt::format("{} does not say which recipe it is for", what), "add a line such as recipe: captcha");
  }
  source.recipe = &find_recipe(recipe->second.yaml);
  return source;
}

}  // namespace

int cmd_train(const Arguments& arguments) {
  TrainArguments train;
  if (!parse(train, arguments)) return 0;
  Source source = open_source(train.what);
  for (const std::string& assignment : train.sets) source.tree.set(assignment, "--set");
  const auto config = source.recipe->make_config();
  ConfigFields fields;
  std::string recipe_name = source.recipe->name();
  fields.add("recipe", &recipe_name, "what is trained");
  config->describe(fields);
  fields.bind(source.tree);
  config->validate();
  const auto task = source.recipe->make_task(*config);
  return with_job(train.backend, train.device, [&](Job& job) {
    Trainer trainer(job, *task, *config,
                    {.recipe = recipe_name,
                     .run_dir = train.run_dir,
                     .config_yaml = fields.to_yaml(),
                     .init_from = train.init_from});
    trainer.fit();
    return 0;
  });
}

}  // namespace lockstep::worker
