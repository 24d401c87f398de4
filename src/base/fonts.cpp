// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fonts.h"

#include <dlfcn.h>

#include <system_error>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "fonts/truetype/dejavu";

// The library or the program that this code was linked into.
fs::path this_binary() {
  Dl_info info{};
  std::error_code problem;
  const bool is_known = ::dladdr(reinterpret_cast<const void*>(&font_folder), &info) != 0 && info.dli_fname != nullptr;
  // A program has the name there that it was called by, which PATH or another working directory may resolve.
  fs::path named = is_known ? fs::path(info.dli_fname) : fs::path();
  if (named.filename().string().find(".so") != std::string::npos) return named;
  return fs::read_symlink("/proc/self/exe", problem);
}

}  // namespace

fs::path font_folder_of(const fs::path& binary) {
  std::error_code problem;
  const fs::path beside = binary.parent_path().parent_path() / "share" / kFolder;
  return fs::exists(beside / "DejaVuSans.ttf", problem) ? beside : fs::path("/usr/share") / kFolder;
}

const fs::path& font_folder() {
  static const fs::path found = font_folder_of(this_binary());
  return found;
}

}  // namespace lockstep
