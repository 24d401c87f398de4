// SPDX-License-Identifier: Apache-2.0
// A recipe with the weights and settings of a checkpoint, for eval and predict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/train/recipe.h"

namespace lockstep::worker {

struct Trained {
  std::unique_ptr<TrainConfig> config;
  std::unique_ptr<Task> task;
  std::shared_ptr<torch::nn::Module> model;  ///< network in evaluation mode
  std::int64_t step = 0;
  std::string path;      ///< path of the step folder
  std::string recipe;    ///< name of the recipe
  std::string settings;  ///< all settings, as YAML
  std::string weights;   ///< kind of the weights, such as a moving average; empty: the trained weights themselves
};

/// Loads a checkpoint. `sets`: assignments a.b=c that override the checkpoint's settings.
/// Throws: DataError if the checkpoint is missing, torn, or from another recipe; UsageError if `sets` is invalid.
[[nodiscard]] Trained load_trained(const Recipe& recipe, const std::string& checkpoint,
                                   const std::vector<std::string>& sets = {});
/// Does the same for the recipe that the checkpoint names.
[[nodiscard]] Trained load_trained(const std::string& checkpoint, const std::vector<std::string>& sets = {});

/// Converts a checkpoint to the file format of its recipe's original implementation. `state`: "model" or "ema" to
/// convert only that state; empty: both, so that the other program can choose. Throws: anything load_trained() throws;
/// an error if the checkpoint lacks the state; UsageError if there is no original implementation.
[[nodiscard]] TorchValue origin_file_of(const std::string& checkpoint, const std::string& state);

}  // namespace lockstep::worker
