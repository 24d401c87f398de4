// SPDX-License-Identifier: Apache-2.0
// Parses the time limits of sections that users set: LOCKSTEP_SECTION_TIMEOUT=save=600,data=0.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// A limit that a user has set.
struct SectionTimeout {
  std::string section;              ///< name of the section's spans
  std::chrono::milliseconds limit;  ///< 0: no limit
};

/// Returns the section for a user's name: "data" is DataLoader::next; other names are unchanged.
[[nodiscard]] std::string section_of(std::string_view name);

/// Parses NAME=SECONDS[,NAME=SECONDS...]. Throws: UsageError naming the invalid part.
[[nodiscard]] std::vector<SectionTimeout> parse_section_timeouts(std::string_view text);

}  // namespace lockstep::flight

#pragma GCC visibility pop
