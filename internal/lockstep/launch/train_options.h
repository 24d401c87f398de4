// SPDX-License-Identifier: Apache-2.0
// The options of a training run, in one table. `lockstep train` reads it as the launcher and as a rank; a user's
// program (lockstep/train/arguments.h) uses a part of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// An option of a training run.
struct TrainOption {
  std::string_view name;           ///< "--run-dir"
  std::string_view also = {};      ///< another name; empty: none
  char letter = '\0';              ///< short name: 'r' for -r; 0: none
  std::string_view value = {};     ///< the kind of its value, such as "FOLDER"; empty: the option is a switch
  std::string_view fallback = {};  ///< the default, in words; empty: none is shown
  std::string_view help = {};      ///< help text of one sentence
  std::string_view setting = {};   ///< the setting that the option sets, such as "tensorboard"; for a switch with its
                                   ///< value, such as "tensorboard=none"; empty: none
  std::string_view group = {};     ///< its heading in the help; empty: the general heading
  bool in_programs = false;        ///< also available in users' programs
};

inline constexpr std::string_view kRanksGroup = "Ranks";
inline constexpr std::string_view kNodesGroup = "Several nodes";
inline constexpr std::string_view kOneByOneGroup = "Ranks that you start one by one";

/// Returns all options, in the order of the help.
[[nodiscard]] std::span<const TrainOption> train_options();

/// Returns the option that `word` names; null if it names none. Text from '=' on is ignored, and '_' counts as '-'.
/// Example: find_train_option("--run_dir=runs/a")->name is "--run-dir". find_train_option("-r") is --resume.
[[nodiscard]] const TrainOption* find_train_option(std::string_view word);

/// Returns the word that names the recipe or its settings file: the first word that is neither an option nor an
/// option's value. After an option that only the recipe knows, such as --batch-size 4 or --distributed, the next word
/// is taken as its value unless no other word can be the recipe; a number, true or false is never the recipe. Empty if
/// there is none.
[[nodiscard]] std::string recipe_word(const std::vector<std::string>& words);

}  // namespace lockstep

#pragma GCC visibility pop
