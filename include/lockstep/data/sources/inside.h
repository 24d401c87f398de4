// SPDX-License-Identifier: Apache-2.0
// File names from a data set's own files: they must stay inside the folder that the user named. No torch header.
#pragma once

#include <filesystem>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the file `name` of a data set in `folder`, without "." and "..". `from` is the list or the annotations with
/// that name, for messages. A name that leads out of the folder, by ".." or because it is absolute, is refused, unless
/// `allow_outside` (the setting data.allow_outside) is set, which leaves it as it is. Only the name counts: links in
/// the folder are the choice of its creator.
/// Throws: DataError naming the file and the list.
[[nodiscard]] std::string name_inside(const std::filesystem::path& folder, const std::string& name,
                                      const std::filesystem::path& from, bool allow_outside);

}  // namespace lockstep

#pragma GCC visibility pop
