// SPDX-License-Identifier: Apache-2.0
// Generates synthetic captchas as PNG files, in the two styles of the original code. Independent of models and
// training. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/set_files.h"

namespace lockstep::captcha {

enum class StyleChoice {
  kMixed,   ///< even indices simple, odd ones custom
  kSimple,  ///< warped, rotated letters in one dark colour on a light one, dots and a curve
  kCustom,  ///< letters with shadows on white, crossed by lines and points
};

struct GenerateOptions {
  std::filesystem::path out;  ///< created if missing; must not hold PNG files
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  std::string charset = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";  ///< expanded: see expand_charset()
  std::int64_t length = 4;
  std::int64_t width = 160;  ///< pixels
  std::int64_t height = 60;  ///< pixels
  StyleChoice style = StyleChoice::kMixed;
  std::int64_t threads = 0;  ///< 0: one per processor. The output does not depend on it
};

/// Expands ranges: "0-9A-F" gives "0123456789ABCDEF"; a '-' at either end is literal.
/// Throws: UsageError if it is empty, a range is reversed, a character occurs twice, or a character is not printable
/// ASCII or cannot appear in a label ('_' ends a label, '/' a folder).
[[nodiscard]] std::string expand_charset(const std::string& ranges);

/// Parses "mixed", "simple" or "custom". Throws: UsageError that suggests the closest style.
[[nodiscard]] StyleChoice parse_style(const std::string& name);

/// Writes `count` files LABEL_<index>.png. The same options give the same bytes, on any number of threads.
/// Throws: UsageError if an option is out of range or `out` already holds PNG files; ResourceError if a font is
/// missing; IoError if a file cannot be written.
void generate_captchas(const GenerateOptions& options, const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::captcha
