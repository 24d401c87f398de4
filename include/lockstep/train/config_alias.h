// SPDX-License-Identifier: Apache-2.0
// Settings under the names of another program: a recipe takes those of the one it re-creates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A key of the other program, and its meaning here. "a.b.*" stands for all keys that begin with "a.b.". A key with two
/// aliases becomes several keys here.
struct ConfigAlias {
  std::string from;     ///< the other program's key
  std::string to = {};  ///< the key here; where it is the same key, only the value changes; empty: it has no meaning
                        ///< here; "--name": an option of `lockstep train`
  /// Returns the value here, as YAML; without this function the value is kept. An empty result sets nothing.
  std::function<std::string(const std::string& value)> value = nullptr;
  bool wins = false;         ///< wins over the key here, where both are set in the same place
  bool is_switch = false;    ///< has no value there, as "--distributed"
  std::string instead = {};  ///< for a key without a meaning here: what the note tells the user to use
  /// For a key without a meaning here: what the program does whatever the key says, such as "True", in all spellings.
  /// No note names a key that says the same.
  std::vector<std::string> always = {};
  bool must_be = false;  ///< another value than one of `always` is an error
};

/// Returns `tree` with the names of this program; every value keeps its origin. Where both names are set, `--set` wins
/// over files, and in the same place the name of this program wins.
/// `notes` gets, in this order, a line for each name whose value has no effect here, one for those without a meaning
/// here, and one for all names that were changed (of many the first ones), where there are any.
/// Throws: UsageError naming file and line of a value that must be another; what the aliases' functions throw.
[[nodiscard]] ConfigTree with_aliases(const ConfigTree& tree, const std::vector<ConfigAlias>& aliases,
                                      std::vector<std::string>& notes);

}  // namespace lockstep

#pragma GCC visibility pop
