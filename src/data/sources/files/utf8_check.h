// SPDX-License-Identifier: Apache-2.0
// Checks that untrusted bytes are UTF-8. No torch header.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::data {

/// Returns the index of the first byte that is not valid UTF-8; none if all bytes are valid.
[[nodiscard]] std::optional<std::size_t> first_no_utf8(std::string_view text) noexcept;

}  // namespace lockstep::data
