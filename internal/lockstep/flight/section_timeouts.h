// SPDX-License-Identifier: Apache-2.0
// How long sections may take, as users write it: LOCKSTEP_SECTION_TIMEOUT=save=600,data=0.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// A limit that a user has set.
struct SectionTimeout {
  std::string section;              ///< as spans name it
  std::chrono::milliseconds limit;  ///< 0: any time
};

/// Returns the section that a user means: "data" is DataLoader::next; other names stay.
[[nodiscard]] std::string section_of(std::string_view name);

/// Parses NAME=SECONDS[,NAME=SECONDS...]. Throws: UsageError that names the part which is none.
[[nodiscard]] std::vector<SectionTimeout> parse_section_timeouts(std::string_view text);

}  // namespace lockstep::flight

#pragma GCC visibility pop
