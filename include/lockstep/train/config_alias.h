// SPDX-License-Identifier: Apache-2.0
// Settings under the names of another program: a recipe accepts the settings of the program that it re-creates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A key of the other program, and its meaning here. "a.b.*" means all keys that begin with "a.b.". A key with two
/// aliases sets two keys here.
struct ConfigAlias {
  std::string from;     ///< the other program's key
  std::string to = {};  ///< the key here; if it equals `from`, only the value is converted; empty: the key has no
                        ///< meaning here; "--name": an option of `lockstep train`
  /// Converts the value to this program's form, as YAML; if null, the value is kept. An empty result sets nothing.
  std::function<std::string(const std::string& value)> value = nullptr;
  bool wins = false;         ///< true: it wins over `to` if both are set in the same place
  bool is_switch = false;    ///< true: the other program's option has no value, such as "--distributed"
  std::string instead = {};  ///< for a key without a meaning here: what the note advises to use
  /// The fixed value that a key without a meaning here effectively has, such as "True", in all its spellings. Notes do
  /// not mention a key set to it.
  std::vector<std::string> always = {};
  bool must_be = false;  ///< a value that is not in `always` is an error
};

/// Returns `tree` with this program's names; every value keeps its origin. If both names are set, `--set` wins over
/// files, and within one place this program's name wins. It adds to `notes`, in this order: a line for each key whose
/// value has no effect here, one line that lists the keys without a meaning here, and one line that lists the renamed
/// keys (if there are many, the first of them).
/// Throws: UsageError naming the file and line of a value that must_be forbids; anything the aliases' functions throw.
[[nodiscard]] ConfigTree with_aliases(const ConfigTree& tree, const std::vector<ConfigAlias>& aliases,
                                      std::vector<std::string>& notes);

}  // namespace lockstep

#pragma GCC visibility pop
