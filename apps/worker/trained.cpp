// SPDX-License-Identifier: Apache-2.0
#include "worker/trained.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/data/decode.h"
#include "lockstep/optim/ema.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/threads.h"
#include "worker/recipes.h"
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

std::string settings_of(const Checkpoint& checkpoint) {
  auto settings = checkpoint.text("config.yml");
  if (settings) return std::move(*settings);
  throw DataError(fmt::format("{} does not contain the settings it was trained with", checkpoint.path().string()),
                  "only checkpoints of `lockstep train` contain settings");
}

/// A checkpoint with its settings.
struct OpenedRun {
  Checkpoint checkpoint;
  ConfigTree settings;
  std::string recipe;  ///< name of the recipe; "" if the settings have none
};

OpenedRun open_trained(const std::string& where) {
  Checkpoint checkpoint = load_checkpoint(where);
  ConfigTree settings = ConfigTree::from_text(settings_of(checkpoint), checkpoint.path().string());
  const auto recipe = settings.values().find("recipe");
  std::string name = recipe == settings.values().end() ? "" : recipe->second.yaml;
  return {.checkpoint = std::move(checkpoint), .settings = std::move(settings), .recipe = std::move(name)};
}

/// The settings of a checkpoint and their task, without weights.
Trained with_task(const Recipe& recipe, const OpenedRun& from, const std::vector<std::string>& sets) {
  std::string name = recipe.name();
  Trained trained;
  trained.config = recipe.make_config();
  ConfigFields fields;
  fields.add("recipe", &name, "what was trained");
  trained.config->describe(fields);
  fields.bind(from.settings);
  ConfigTree over;
  for (const std::string& assignment : sets) over.set(assignment, "--set");
  std::vector<std::string> notes;
  fields.bind(in_own_words(recipe, over, notes));
  trained.config->validate();
  if (trained.config->threads == 0) trained.config->threads = from.checkpoint.manifest().meta.threads;
  set_max_pixels(trained.config->data.max_pixels);
  tensor::set_threads(static_cast<int>(trained.config->threads));
  trained.task = recipe.make_task(*trained.config);
  trained.task->check_model_state(from.checkpoint.state("model"));
  trained.step = from.checkpoint.step();
  trained.path = from.checkpoint.path().string();
  trained.recipe = recipe.name();
  trained.settings = fields.to_yaml();
  return trained;
}

Trained load_opened(const Recipe& recipe, const OpenedRun& from, const std::vector<std::string>& sets) {
  Trained trained = with_task(recipe, from, sets);
  trained.model = trained.task->make_model();
  if (trained.config->ema.decay > 0) {
    const EMAState average = ema_state_of(from.checkpoint.state("ema"));
    load_model_state_dict(*trained.model, average.model);
    trained.weights = fmt::format("the moving average (EMA) of {} steps",
                                  text::thousands(std::max<std::int64_t>(0, average.updates)));
  } else {
    load_model_state_dict(*trained.model, from.checkpoint.state("model"));
  }
  trained.model->eval();
  trained.task->prepare_inference(*trained.model);
  return trained;
}

/// The entries of a state, with tied tensors under all their names.
StateDict entries_of(torch::nn::Module& model, const StateDict& state) {
  load_model_state_dict(model, state);
  StateDict entries;
  for (const auto& [name, tensor] : named_entries_of(model)) entries[name] = tensor.detach().clone();
  return entries;
}

ModelStates model_states_of(const Checkpoint& checkpoint, torch::nn::Module& model, const std::string& wanted) {
  ModelStates states;
  const StateDict run = checkpoint.has("run") ? checkpoint.state("run") : StateDict{};
  const auto epoch = run.find("epoch");
  if (epoch != run.end()) states.epochs = std::get<std::int64_t>(epoch->second);
  if (wanted == "ema" || (wanted.empty() && checkpoint.has("ema"))) {
    const EMAState average = ema_state_of(checkpoint.state("ema"));
    states.average = entries_of(model, average.model);
    states.updates = average.updates;
  }
  states.model = wanted == "ema" ? *states.average : entries_of(model, checkpoint.state("model"));
  if (wanted == "ema") states.average.reset();
  return states;
}

}  // namespace

TorchValue origin_file_of(const std::string& checkpoint, const std::string& state) {
  const OpenedRun opened = open_trained(checkpoint);
  const Trained trained = with_task(find_recipe(opened.recipe), opened, {});
  const auto model = trained.task->make_model();
  auto file = trained.task->origin_file(model_states_of(opened.checkpoint, *model, state));
  if (file) return std::move(*file);
  throw UsageError(
      fmt::format("the network of {} ({}) has no original implementation to match", trained.path, trained.recipe),
      "omit --as-origin: the file then has Lockstep's names");
}

Trained load_trained(const Recipe& recipe, const std::string& checkpoint, const std::vector<std::string>& sets) {
  const OpenedRun opened = open_trained(checkpoint);
  if (opened.recipe == recipe.name()) return load_opened(recipe, opened, sets);
  throw DataError(fmt::format("{} was trained with the recipe {}, not {}", opened.checkpoint.path().string(),
                              opened.recipe, recipe.name()),
                  "use the recipe " + opened.recipe);
}

Trained load_trained(const std::string& checkpoint, const std::vector<std::string>& sets) {
  const OpenedRun opened = open_trained(checkpoint);
  if (!opened.recipe.empty()) return load_opened(find_recipe(opened.recipe), opened, sets);
  throw DataError(fmt::format("{} does not name the recipe it was trained with", opened.checkpoint.path().string()),
                  "only checkpoints written by `lockstep train` do");
}

}  // namespace lockstep::worker
