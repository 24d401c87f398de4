// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/recipe.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

namespace {

std::vector<Prediction> predictions_of(const Recipe& recipe, Task& task, torch::nn::Module& model,
                                       const std::filesystem::path& file, bool pictures) {
  std::vector<Prediction> predictions = recipe.predict(task, model, {file});
  if (!pictures) return predictions;
  for (Prediction& prediction : predictions) {
    prediction.picture = recipe.draw(task, model, file);
    if (!prediction.picture)
      throw UsageError(fmt::format("the recipe {} cannot draw images", recipe.name()), "omit --pictures");
  }
  return predictions;
}

}  // namespace

void Recipe::predict_all(Task& task, torch::nn::Module& model, const std::vector<std::filesystem::path>& files,
                         const PredictOptions& options, const std::function<void(Prediction)>& take) const {
  for (const auto& file : files) {
    std::vector<Prediction> predictions;
    try {
      predictions = predictions_of(*this, task, model, file, options.pictures);
    } catch (const DataError& error) {
      if (!options.unreadable) throw;
      options.unreadable(error);
    }
    for (Prediction& prediction : predictions) take(std::move(prediction));
  }
}

}  // namespace lockstep
