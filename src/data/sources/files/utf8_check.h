// SPDX-License-Identifier: Apache-2.0
// Checks that foreign bytes are UTF-8. No torch header.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::data {

/// Returns the first byte that belongs to no letter of UTF-8; none if all do.
[[nodiscard]] std::optional<std::size_t> first_no_utf8(std::string_view text) noexcept;

}  // namespace lockstep::data
