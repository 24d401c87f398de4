// SPDX-License-Identifier: Apache-2.0
// Compares the class lists of a model and a data set: each set numbers its own classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::common {

/// The classes, as in "8 classes (circle, triangle, ...)".
[[nodiscard]] std::string counted_names(std::int64_t classes, const std::vector<std::string>& names);

/// Throws: DataError if the sets differ in their classes, because the same label would mean different classes. An empty
///         list equals any list. `path` names the set with the classes `here`.
void require_same_classes(const std::vector<std::string>& training, const std::vector<std::string>& here,
                          const std::string& path);

/// Like require_same_classes(), but for when only the model's names are known, and these may be the user's own: a name
/// in both lists must have the same label in both.
void require_same_labels(const std::vector<std::string>& model, const std::vector<std::string>& here,
                         const std::string& path);

}  // namespace lockstep::common
