// SPDX-License-Identifier: Apache-2.0
// Checks file names found in a data set's files: they must stay inside the folder that the user named. No torch header.
#pragma once

#include <filesystem>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the file name `name` of a data set in `folder`, with "." and ".." resolved. `from` is the list or annotation
/// file that contains the name, for messages. A name that points outside the folder, by ".." or because it is absolute,
/// is rejected; with `allow_outside` (the setting data.allow_outside) it is returned unchanged. Symbolic links in the
/// folder are not checked: its creator chose them. Throws: DataError naming the file and the list.
[[nodiscard]] std::string name_inside(const std::filesystem::path& folder, const std::string& name,
                                      const std::filesystem::path& from, bool allow_outside);

}  // namespace lockstep

#pragma GCC visibility pop
