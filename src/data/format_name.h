// SPDX-License-Identifier: Apache-2.0
// The format of a file that is not an image we read, by its first bytes, for error messages. No torch header.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::data {

/// Returns the format and the next step, as in "but WebP: convert it to PNG"; empty if the format is unknown.
[[nodiscard]] std::string other_format(std::string_view bytes);

}  // namespace lockstep::data
