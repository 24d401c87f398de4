// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fonts.h"

#include <system_error>

#include "base/this_binary.h"

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

}  // namespace lockstep
