// SPDX-License-Identifier: Apache-2.0
// Settings under the names of another program: a recipe takes those of the one it re-creates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A key of the other program. "a.b.*" stands for all keys that begin so. One that stands twice is several keys here.
struct ConfigAlias {
  std::string from;
  std::string to = {};  ///< the key here; the same key: only the value changes; empty: it has no meaning here
  /// The value here, as YAML; without one it stays. An empty result: there is nothing to set.
  std::function<std::string(const std::string& value)> value = nullptr;
  bool wins = false;         ///< over the key here, where both stand in the same place
  bool is_switch = false;    ///< stands alone there, as "--distributed"
  std::string instead = {};  ///< of a key without a meaning here: what to use, in the note
};

/// `tree` under the names of this program, every value with its origin. Where both names are set, `--set` wins over
/// files, and of two in the same place the name of this program.
/// `notes`: one line for all names that were changed, one for those without a meaning here; none where there are none.
/// Throws: what the aliases' functions throw.
[[nodiscard]] ConfigTree with_aliases(const ConfigTree& tree, const std::vector<ConfigAlias>& aliases,
                                      std::vector<std::string>& notes);

}  // namespace lockstep

#pragma GCC visibility pop
