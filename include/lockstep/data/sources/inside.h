// SPDX-License-Identifier: Apache-2.0
// Names of files that a data set's own files give: they stay inside the folder that the user named. No torch header.
#pragma once

#include <filesystem>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// The file `name` of a data set in `folder`, without "." and ".." in it; `from`: the list or annotations that name it,
/// for messages. A name that leads out of the folder, by ".." or because it is absolute, is refused unless
/// `allow_outside` (the setting data.allow_outside), which leaves it as it is. The name alone counts: where a link in
/// the folder leads to is the choice of who made the folder.
/// Throws: DataError naming both.
[[nodiscard]] std::string name_inside(const std::filesystem::path& folder, const std::string& name,
                                      const std::filesystem::path& from, bool allow_outside);

}  // namespace lockstep

#pragma GCC visibility pop
