// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/timed_recipe.h"

#include "lockstep/tensor/random.h"
#include "worker/bench/step_data.h"

namespace lockstep::worker {
namespace {

std::vector<std::string> with_data(const std::string& what, const std::vector<std::string>& sets) {
  std::vector<std::string> all = {"workers=0"};
  all.push_back("data.train=" + made_up_data(recipe_of(what).name()));
  all.insert(all.end(), sets.begin(), sets.end());
  return all;
}

}  // namespace

TimedRecipe::TimedRecipe(Job& job, const std::string& what, const std::vector<std::string>& sets)
    : settings(what, with_data(what, sets)) {
  TrainConfig& config = settings.config();
  config.stages = decltype(config.stages){};  // a step has no second stage, and no evaluation that chooses its weights
  config.validate();
  if (config.replicas == 0) config.replicas = job.world_size();
  if (config.threads == 0) config.threads = 1;
  seed_all(config.seed);
  task = settings.recipe().make_task(config);
  const bool is_random = config.data.train == kRandomImages;
  if (!is_random) settings.recipe().settle(*task, config);
  const auto dataset = is_random ? random_captchas(config) : task->make_training_set(config.data.train);
  timer = std::make_unique<StepTimer>(job, *task, config, dataset, StepTimerOptions{.load = false});
}

}  // namespace lockstep::worker
