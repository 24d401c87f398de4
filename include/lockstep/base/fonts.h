// SPDX-License-Identifier: Apache-2.0
// Finds the fonts for words on pictures and for drawn captchas.
#pragma once

#include <filesystem>

namespace lockstep {
#pragma GCC visibility push(default)

/// The folder of the DejaVu fonts: Debian's fonts-dejavu-core, or the one of Python's wheel beside the program or
/// library with this code. They may be missing: only a reader finds that out.
[[nodiscard]] const std::filesystem::path& font_folder();

/// The same for code in the file `binary`: the folder share/fonts beside its own folder, if it has the fonts.
[[nodiscard]] std::filesystem::path font_folder_of(const std::filesystem::path& binary);

#pragma GCC visibility pop
}  // namespace lockstep
