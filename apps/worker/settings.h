// SPDX-License-Identifier: Apache-2.0
// A recipe's settings from a command line: recipe, preset or file, then a second file, then --set.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/train/recipe.h"

namespace lockstep::worker {

class Settings {
 public:
  /// `what`: RECIPE, RECIPE:PRESET, or FILE.yml whose key `recipe` names the recipe. `sets`: the assignments a.b=c of
  /// --set; if a name occurs twice, the last value wins. `file`: the file of -c, which is applied over a recipe or
  /// preset and need not name the recipe; empty: none. Throws: UsageError that names file and line of an unknown key or
  /// an invalid value; DataError if a file is missing.
  Settings(const std::string& what, const std::vector<std::string>& sets, const std::string& file = "");
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  [[nodiscard]] const Recipe& recipe() const noexcept { return *recipe_; }
  [[nodiscard]] const TrainConfig& config() const noexcept { return *config_; }
  [[nodiscard]] TrainConfig& config() noexcept { return *config_; }
  /// Releases the settings; do not use this object's settings afterwards.
  [[nodiscard]] std::unique_ptr<TrainConfig> release() noexcept { return std::move(config_); }
  [[nodiscard]] const ConfigFields& fields() const noexcept { return fields_; }
  /// The value that the settings give to an option of `lockstep train`, such as "--run-dir", under the name that
  /// another program uses for it; empty: none.
  [[nodiscard]] std::string option(const std::string& name) const;

 private:
  void bind(const ConfigTree& tree);

  const Recipe* recipe_ = nullptr;
  std::string recipe_name_;
  std::unique_ptr<TrainConfig> config_;
  ConfigFields fields_;
  std::map<std::string, std::string> options_;
};

/// Translates `tree` into the recipe's own keys. Values in `tree` for options of `lockstep train` go into `options`
/// (Settings::option()). `notes`: as in with_aliases(). Throws: UsageError that names file and line of an unknown key
/// and suggests the closest match among the keys of both programs.
[[nodiscard]] ConfigTree in_own_words(const Recipe& recipe, const ConfigTree& tree, std::vector<std::string>& notes,
                                      std::map<std::string, std::string>* options = nullptr);

/// The recipe's aliases, and the options that every program started by torch.distributed.launch accepts. The latter
/// have no effect here, because the launcher gives each rank its number.
[[nodiscard]] std::vector<ConfigAlias> aliases_of(const Recipe& recipe);

/// The recipe that `what` (as above) names. Throws: anything Settings throws.
[[nodiscard]] const Recipe& recipe_of(const std::string& what);

/// True if `name` is a key of the recipe, or of the original program that it re-creates.
[[nodiscard]] bool is_setting(const Recipe& recipe, const std::string& name);
/// True if `name` takes no value in the original program.
[[nodiscard]] bool is_switch(const Recipe& recipe, const std::string& name);
/// All names for which is_setting() is true, for suggestions.
[[nodiscard]] std::vector<std::string> setting_names(const Recipe& recipe);

}  // namespace lockstep::worker
