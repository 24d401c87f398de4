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
#include "worker/settings.h"

namespace lockstep::worker {
namespace {

std::string settings_of(const Checkpoint& checkpoint) {
  auto settings = checkpoint.text("config.yml");
  if (settings) return std::move(*settings);
  throw DataError(fmt::format("{} does not contain the settings it was trained with", checkpoint.path().string()),
                  "only checkpoints of `lockstep train` can be evaluated");
}

}  // namespace

Trained load_trained(const Recipe& recipe, const std::string& checkpoint, const std::vector<std::string>& sets) {
  const Checkpoint opened = load_checkpoint(checkpoint);
  const std::string path = opened.path().string();
  const ConfigTree settings = ConfigTree::from_text(settings_of(opened), path);
  const auto trained_by = settings.values().find("recipe");
  std::string name = trained_by == settings.values().end() ? "" : trained_by->second.yaml;
  if (name != recipe.name()) {
    throw DataError(fmt::format("{} was trained with the recipe {}, not {}", path, name, recipe.name()),
                    "give the recipe " + name);
  }
  Trained trained;
  trained.config = recipe.make_config();
  ConfigFields fields;
  fields.add("recipe", &name, "what was trained");
  trained.config->describe(fields);
  fields.bind(settings);
  ConfigTree over;
  for (const std::string& assignment : sets) over.set(assignment, "--set");
  std::vector<std::string> notes;
  fields.bind(in_own_words(recipe, over, notes));
  trained.config->validate();
  if (trained.config->threads == 0) trained.config->threads = opened.manifest().meta.threads;
  set_max_pixels(trained.config->data.max_pixels);
  tensor::set_threads(static_cast<int>(trained.config->threads));
  trained.task = recipe.make_task(*trained.config);
  trained.task->check_model_state(opened.state("model"));
  trained.model = trained.task->make_model();
  if (trained.config->ema.decay > 0) {
    const EMAState average = ema_state_of(opened.state("ema"));
    load_model_state_dict(*trained.model, average.model);
    trained.weights = fmt::format("the moving average (EMA) of {} steps",
                                  text::thousands(std::max<std::int64_t>(0, average.updates)));
  } else {
    load_model_state_dict(*trained.model, opened.state("model"));
  }
  trained.model->eval();
  trained.task->prepare_inference(*trained.model);
  trained.step = opened.step();
  trained.path = path;
  return trained;
}

}  // namespace lockstep::worker
