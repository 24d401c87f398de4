// SPDX-License-Identifier: Apache-2.0
// Finds the fonts for labels on images and for generated captchas.
#pragma once

#include <filesystem>

namespace lockstep {
#pragma GCC visibility push(default)

/// Returns the folder of the DejaVu fonts: the one in a Python wheel beside this library or program, else Debian's
/// fonts-dejavu-core. It does not check that the fonts are there.
[[nodiscard]] const std::filesystem::path& font_folder();

/// Does the same for code in the file `binary`: returns share/fonts beside the folder of `binary` if that has the
/// fonts.
[[nodiscard]] std::filesystem::path font_folder_of(const std::filesystem::path& binary);

/// Logs a note that the font has no glyph for `letter`, once per process.
void note_missing_glyph(char32_t letter);

#pragma GCC visibility pop
}  // namespace lockstep
