// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sources/inside.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool begins_with(const fs::path& path, const fs::path& folder) {
  const auto [at, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return at == folder.end();
}

/// True if `file` is in `folder` as written, or in the folder's real path (all links resolved), in case the file's name
/// uses that path.
bool is_in(const fs::path& file, const fs::path& folder) {
  const fs::path written = fs::absolute(folder / "x").lexically_normal().parent_path();  // "data/" is "data"
  if (begins_with(file, written)) return true;
  std::error_code fault;
  const fs::path real = fs::canonical(folder, fault);
  return !fault && begins_with(file, real);
}

}  // namespace

std::string name_inside(const fs::path& folder, const std::string& name, const fs::path& from, bool allow_outside) {
  // The system reads a name up to its first zero byte, so it would open a file other than the checked one.
  if (name.find('\0') != std::string::npos) {
    throw DataError(fmt::format("{} contains a file name with a null byte: '{}'", from.string(), name));
  }
  const fs::path path = name;
  if (allow_outside || (name.find("..") == std::string::npos && !path.is_absolute())) return name;
  // Returns exactly the checked name: the system would resolve "link/.." to the folder above the link's target.
  const fs::path plain = path.lexically_normal();
  if (plain.is_absolute() ? is_in(plain, folder) : *plain.begin() != "..") return plain.string();
  throw DataError(fmt::format("{} names '{}', which lies outside of {}", from.string(), name,
                              folder.empty() ? "its folder" : folder.string()),
                  fmt::format("pass the folder that contains all the files, or allow the data to name any of your "
                              "files: {} (pack, inspect data: --allow-outside)",
                              setting_words("data.allow_outside=true")));
}

}  // namespace lockstep
