// SPDX-License-Identifier: Apache-2.0
// The folder with real data for tests. It is outside the project, so a test must skip if it is missing.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::test {

/// Returns $LOCKSTEP_DATA/<name>, otherwise ../shared/data/<name> beside the project; none if there is no such folder.
inline std::optional<std::filesystem::path> data_folder(const std::string& name) {
  const char* given = std::getenv("LOCKSTEP_DATA");
  const std::filesystem::path root =
      given != nullptr ? given : std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "../shared/data";
  std::error_code fault;
  if (!std::filesystem::is_directory(root / name, fault)) return std::nullopt;
  return root / name;
}

}  // namespace lockstep::test

/// Declares `folder`, or skips the test with the reason.
#define LOCKSTEP_DATA_OR_SKIP(folder, name)                                                       \
  const auto folder##_found = lockstep::test::data_folder(name);                                  \
  if (!folder##_found) GTEST_SKIP() << "no " << (name) << " in $LOCKSTEP_DATA or ../shared/data"; \
  const std::filesystem::path& folder = *folder##_found
