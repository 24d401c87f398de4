// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/recipe.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

void Recipe::predict_all(Task& task, torch::nn::Module& model, const std::vector<std::filesystem::path>& files,
                         const PredictOptions& options, const std::function<void(Prediction)>& take) const {
  for (const auto& file : files) {
    for (Prediction& prediction : predict(task, model, {file})) {
      if (options.pictures) {
        prediction.picture = draw(task, model, file);
        if (!prediction.picture)
          throw UsageError(fmt::format("the recipe {} cannot draw images", name()), "omit --pictures");
      }
      take(std::move(prediction));
    }
  }
}

}  // namespace lockstep
