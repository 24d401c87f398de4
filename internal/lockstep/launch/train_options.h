// SPDX-License-Identifier: Apache-2.0
// The options of a training, in one table: `lockstep train` reads it as the launcher and as a rank, and a user's own
// program (lockstep/train/arguments.h) takes its part of it.
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
  std::string_view also = {};      ///< another name; empty: it has none
  char letter = '\0';              ///< 'r' of -r; 0: none
  std::string_view value = {};     ///< the kind of its value, such as "FOLDER"; empty: it is a switch
  std::string_view fallback = {};  ///< the default, in words; empty: none is shown
  std::string_view help = {};      ///< one sentence
  std::string_view setting = {};   ///< the setting for which it is another name, as "tensorboard"; of a switch with its
                                   ///< value, as "tensorboard=none"; empty: none
  std::string_view group = {};     ///< its heading in the help; empty: that of all others
  bool in_programs = false;        ///< programs of users have it too
};

inline constexpr std::string_view kRanksGroup = "Ranks";
inline constexpr std::string_view kNodesGroup = "Several nodes";
inline constexpr std::string_view kOneByOneGroup = "Ranks that you start one by one";

/// Returns all options, in the order of the help.
[[nodiscard]] std::span<const TrainOption> train_options();

/// Returns the option that `word` names, whatever follows its '=', with '-' or '_' inside its name; null: it is none.
/// Example: find_train_option("--run_dir=runs/a")->name is "--run-dir". find_train_option("-r") is --resume.
[[nodiscard]] const TrainOption* find_train_option(std::string_view word);

/// Returns the word that names the recipe or its settings file: the first one that is neither an option nor an option's
/// value. After an option that only the recipe knows, such as --batch-size 4 or --distributed, a word is its value
/// unless no other word can be the recipe; a number, true or false never is. Empty: there is none.
[[nodiscard]] std::string recipe_word(const std::vector<std::string>& words);

}  // namespace lockstep

#pragma GCC visibility pop
