// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fonts.h"

#include <atomic>
#include <cstdint>
#include <system_error>

#include "base/this_binary.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "fonts/truetype/dejavu";

}  // namespace

fs::path font_folder_of(const fs::path& binary) {
  std::error_code problem;
  const fs::path beside = binary.parent_path().parent_path() / "share" / kFolder;
  return fs::exists(beside / "DejaVuSans.ttf", problem) ? beside : fs::path("/usr/share") / kFolder;
}

const fs::path& font_folder() {
  static const fs::path found = font_folder_of(base::this_binary());
  return found;
}

void note_missing_glyph(char32_t letter) {
  static std::atomic<bool> noted = false;
  if (noted.exchange(true)) return;
  log::note("the font {} has no letter U+{:04X}, so pictures show a box in its place; others are not reported",
            (font_folder() / "DejaVuSans.ttf").string(), static_cast<std::uint32_t>(letter));
}

}  // namespace lockstep
