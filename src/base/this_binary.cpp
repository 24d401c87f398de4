// SPDX-License-Identifier: Apache-2.0
#include "base/this_binary.h"

#include <dlfcn.h>

#include <system_error>

namespace lockstep::base {

namespace fs = std::filesystem;

fs::path this_binary() {
  Dl_info info{};
  std::error_code problem;
  const bool is_known = ::dladdr(reinterpret_cast<const void*>(&this_binary), &info) != 0 && info.dli_fname != nullptr;
  // For a program, dli_fname is the name by which it was called. Resolving that name may require PATH or a different
  // working directory.
  fs::path named = is_known ? fs::path(info.dli_fname) : fs::path();
  if (named.filename().string().find(".so") != std::string::npos) return named;
  return fs::read_symlink("/proc/self/exe", problem);
}

}  // namespace lockstep::base
