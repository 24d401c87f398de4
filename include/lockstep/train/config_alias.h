// SPDX-License-Identifier: Apache-2.0
// Settings under the names of another program: a recipe takes those of the one it re-creates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A key of the other program, and its meaning here. "a.b.*" means all keys that begin with "a.b.". A key with two
/// aliases becomes several keys here.
struct ConfigAlias {
  std::string from;     ///< the other program's key
  std::string to = {};  ///< the key here; if it is the same key, only the value changes; empty: it has no meaning here;
                        ///< "--name": an option of `lockstep train`
  /// Returns the value here, as YAML; without this function the value is kept. An empty result sets nothing.
  std::function<std::string(const std::string& value)> value = nullptr;
  bool wins = false;         ///< wins over the key here, if both are set in the same place
  bool is_switch = false;    ///< has no value there, as "--distributed"
  std::string instead = {};  ///< for a key without a meaning here: the note's advice on what to use
  /// For a key without a meaning here: the program's fixed value, such as "True", in all spellings. No note names a key
  /// with that value.
  std::vector<std::string> always = {};
  bool must_be = false;  ///< another value than one of `always` is an error
};

/// Returns `tree` with the names of this program; every value keeps its origin. If both names are set, `--set` wins
/// over files, and in the same place the name of this program wins.
/// `notes` gets, in this order, a line for each name whose value has no effect here, one for those without a meaning
/// here, and one for all names that were changed (of many the first ones), if there are any.
/// Throws: UsageError naming file and line of a value that must be another; what the aliases' functions throw.
[[nodiscard]] ConfigTree with_aliases(const ConfigTree& tree, const std::vector<ConfigAlias>& aliases,
                                      std::vector<std::string>& notes);

}  // namespace lockstep

#pragma GCC visibility pop
