// SPDX-License-Identifier: Apache-2.0
// Where the fonts lie that words on pictures and drawn captchas are written with.
#pragma once

#include <filesystem>

namespace lockstep {
#pragma GCC visibility push(default)

/// The folder of the DejaVu fonts: Debian's fonts-dejavu-core, or what Python's wheel brings beside the program or the
/// library that has this code. Whether they are there only a reader sees.
[[nodiscard]] const std::filesystem::path& font_folder();

/// The same for code in the file `binary`: the folder share/fonts beside its own folder, if it has the fonts.
[[nodiscard]] std::filesystem::path font_folder_of(const std::filesystem::path& binary);

#pragma GCC visibility pop
}  // namespace lockstep
