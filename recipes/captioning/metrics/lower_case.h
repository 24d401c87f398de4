// SPDX-License-Identifier: Apache-2.0
// The lower case of letters in Latin, Greek and Cyrillic, independent of the locale.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::captioning {

/// Returns the lower case of one UTF-8 character; other characters are unchanged.
[[nodiscard]] std::string lower_case(std::string_view character);

}  // namespace lockstep::captioning
