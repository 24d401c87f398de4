// SPDX-License-Identifier: Apache-2.0
// Recipe: a training problem that is ready to run with `lockstep train|eval|predict NAME`.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/data/decode.h"
#include "lockstep/train/config_alias.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The result of `predict` for one file.
struct Prediction {
  std::string file;                    ///< the file, as it was given
  std::string text;                    ///< the text recognised in it
  std::optional<double> confidence;    ///< 0..1; none if nothing was found
  std::string json = {};               ///< additional fields of its object in --json, such as "\"labels\": [0, 2]"
  std::optional<double> seconds = {};  ///< how long the model took; none if not measured
  std::optional<Image> picture = {};   ///< an image with the results drawn on it; only with PredictOptions::pictures
  std::string sure_of = {};  ///< the part of the text that `confidence` covers, if not all: "least certain box"
};

/// The options of predictions with a trained model.
struct PredictOptions {
  std::optional<double> threshold = {};  ///< minimum confidence of a result; none: the recipe's default
  std::int64_t batch_size = 8;           ///< files in a batch
  std::int64_t workers = 2;              ///< threads that load files ahead; 0: none
  bool pictures = false;                 ///< fills in Prediction::picture
  /// Called with the error of a file that cannot be read, which then has no result; empty: the error is thrown.
  std::function<void(const DataError& error)> unreadable = nullptr;
};

/// An experiment named in the settings.
struct Experiment {
  std::filesystem::path folder = {};    ///< the folder of the run, with a config.yml that the user wrote; empty: none
  std::filesystem::path snapshot = {};  ///< weights file of the re-created program, given by --resume; empty: none
};

/// A problem that is ready to train. It has no state: the config holds everything that a run depends on.
class Recipe {
 public:
  virtual ~Recipe() = default;

  /// Returns the recipe's name on the command line.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns one line for `lockstep train --help`.
  [[nodiscard]] virtual std::string summary() const = 0;
  /// Returns preset names and their YAML; `train NAME:PRESET` starts from a preset.
  [[nodiscard]] virtual std::map<std::string, std::string> presets() const { return {}; }
  /// Returns the keys of the program that the recipe re-creates; a note names the keys that are used.
  [[nodiscard]] virtual std::vector<ConfigAlias> aliases() const { return {}; }
  /// Returns `tree` after converting settings of the original program that depend on several of its keys. The other
  /// settings stay as they are, for aliases(). Throws: UsageError naming file and line.
  [[nodiscard]] virtual ConfigTree translate(const ConfigTree& tree) const { return tree; }
  /// Returns settings that those in `typed` override, such as the settings in the folder of an experiment.
  /// Throws: UsageError naming file and line, DataError for a missing file.
  [[nodiscard]] virtual ConfigTree base_settings(const ConfigTree& /*typed*/) const { return {}; }
  /// Returns the experiment that `config` names, and what `--resume 27` means in it.
  [[nodiscard]] virtual Experiment experiment(const TrainConfig& /*config*/, const std::string& /*resume*/) const {
    return {};
  }
  /// Returns the getting-started message of `lockstep train NAME` without arguments; empty for the usual error.
  [[nodiscard]] virtual std::string getting_started() const { return ""; }
  /// Creates the settings with their defaults.
  [[nodiscard]] virtual std::unique_ptr<TrainConfig> make_config() const = 0;
  /// Creates the task. Lifetime: `config` outlives the task, and came from make_config().
  [[nodiscard]] virtual std::unique_ptr<Task> make_task(const TrainConfig& config) const = 0;
  /// Fills in settings that depend on the data, such as the number and names of the classes, unless they were given.
  /// They are saved with the checkpoints, compared on resume, and read by `eval` and `predict`. It is called on every
  /// rank before a run. `task` was created by this recipe from `config`.
  /// Throws: UsageError naming both values if a setting contradicts the data; the DataErrors of make_training_set().
  virtual void settle(Task& /*task*/, TrainConfig& /*config*/) const {}
  /// Draws what a trained model finds in `file`; none if the recipe does not draw. Throws: DataError naming the file.
  [[nodiscard]] virtual std::optional<Image> draw(Task& /*task*/, torch::nn::Module& /*model*/,
                                                  const std::filesystem::path& /*file*/) const {
    return std::nullopt;
  }
  /// Returns true if predict_all() reads PredictOptions::threshold.
  [[nodiscard]] virtual bool has_threshold() const { return false; }
  /// Predicts files in order and calls `take` with each result as soon as it is known. A recipe whose network takes
  /// batches of images overrides it. Throws: DataError naming the file, unless options.unreadable is set; UsageError if
  /// options.pictures is set and the recipe does not draw.
  virtual void predict_all(Task& task, torch::nn::Module& model, const std::vector<std::filesystem::path>& files,
                           const PredictOptions& options, const std::function<void(Prediction)>& take) const;
  /// Predicts files with a trained model. Throws: DataError naming the file.
  [[nodiscard]] virtual std::vector<Prediction> predict(Task& task, torch::nn::Module& model,
                                                        const std::vector<std::filesystem::path>& files) const = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
