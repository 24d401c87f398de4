// SPDX-License-Identifier: Apache-2.0
#include "worker/trained.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::worker {
namespace {

std::string text_entry(const StateDict& state, const std::string& key, const std::string& path) {
  const auto entry = state.find(key);
  if (entry == state.end() || !std::holds_alternative<std::string>(entry->second)) {
    throw DataError(fmt::format("{} does not hold the run's {}", path, key),
                    "only checkpoints of `lockstep train` can be evaluated");
  }
  return std::get<std::string>(entry->second);
}

}  // namespace

Trained load_trained(const Recipe& recipe, const std::string& checkpoint) {
  const Checkpoint opened = load_checkpoint(checkpoint);
  const StateDict run = opened.state("run");
  const std::string path = opened.path().string();
  std::string name = text_entry(run, "recipe", path);
  if (name != recipe.name()) {
    throw DataError(fmt::format("{} was trained by the recipe {}, not {}", path, name, recipe.name()));
  }
  Trained trained;
  trained.config = recipe.make_config();
  ConfigFields fields;
  fields.add("recipe", &name, "what was trained");
  trained.config->describe(fields);
  fields.bind(ConfigTree::from_text(text_entry(run, "config", path), path));
  at::set_num_threads(static_cast<int>(trained.config->threads));
  trained.task = recipe.make_task(*trained.config);
  trained.model = trained.task->make_model();
  load_model_state_dict(*trained.model, opened.state("model"));
  trained.model->eval();
  trained.step = opened.step();
  trained.path = path;
  return trained;
}

}  // namespace lockstep::worker
