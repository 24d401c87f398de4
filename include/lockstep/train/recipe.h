// SPDX-License-Identifier: Apache-2.0
// Recipe: a ready training problem behind `lockstep train|eval|predict NAME`.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/data/decode.h"
#include "lockstep/train/config_alias.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// What `predict` says of one file.
struct Prediction {
  std::string file;
  std::string text;                  ///< what was read in it
  std::optional<double> confidence;  ///< 0..1; none where nothing was found
};

/// Stateless. Everything a run depends on is in its config.
class Recipe {
 public:
  virtual ~Recipe() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// One line for `lockstep train --help`.
  [[nodiscard]] virtual std::string summary() const = 0;
  /// Preset name to YAML text; `train NAME:PRESET` starts from it.
  [[nodiscard]] virtual std::map<std::string, std::string> presets() const { return {}; }
  /// Keys of the program that the recipe re-creates; said in a note where they are used.
  [[nodiscard]] virtual std::vector<ConfigAlias> aliases() const { return {}; }
  /// Settings that lie beneath those which were typed, such as those of an experiment's folder that was typed.
  /// Throws: UsageError naming file and line, DataError for a missing file.
  [[nodiscard]] virtual ConfigTree base_settings(const ConfigTree& /*typed*/) const { return {}; }
  /// The folder with the experiment's own config.yml, in which it runs unless --run-dir says otherwise; empty: none.
  [[nodiscard]] virtual std::filesystem::path experiment_folder(const TrainConfig& /*config*/) const { return {}; }
  /// Words for `lockstep train NAME` with nothing else, on how to go on; empty: the usual error.
  [[nodiscard]] virtual std::string getting_started() const { return ""; }
  [[nodiscard]] virtual std::unique_ptr<TrainConfig> make_config() const = 0;
  /// Lifetime: `config` outlives the task, and came from make_config().
  [[nodiscard]] virtual std::unique_ptr<Task> make_task(const TrainConfig& config) const = 0;
  /// What the data decide, such as the number and names of the classes, becomes a setting where none was given: it is
  /// saved with the checkpoints, compared when a run goes on, and read by `eval` and `predict`. Called on every rank
  /// before a run. `task`: of this recipe, and of `config`.
  /// Throws: UsageError naming both where a setting says otherwise than the data; DataError as make_training_set().
  virtual void settle(Task& /*task*/, TrainConfig& /*config*/) const {}
  /// A picture with what a trained model sees in it; none where the recipe draws nothing. Throws: DataError naming the
  /// file.
  [[nodiscard]] virtual std::optional<Image> draw(Task& /*task*/, torch::nn::Module& /*model*/,
                                                  const std::filesystem::path& /*file*/) const {
    return std::nullopt;
  }
  /// Reads files with a trained model. Throws: DataError naming the file.
  [[nodiscard]] virtual std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                        const std::vector<std::filesystem::path>& files) const = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
