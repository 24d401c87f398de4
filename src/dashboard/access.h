// SPDX-License-Identifier: Apache-2.0
// Access to the page: the token, and the host names that a browser may use. Pure functions, except new_token().
#pragma once

#include <string>
#include <string_view>

namespace lockstep::dashboard {

/// Returns 32 random bytes as hexadecimal digits.
[[nodiscard]] std::string new_token();

/// Compares two strings in time that does not depend on the position of the first difference.
[[nodiscard]] bool is_equal(std::string_view a, std::string_view b) noexcept;

/// Returns true if a Host header names an address, localhost, or `own_host`. A malicious site whose hostname resolves
/// to this machine (DNS rebinding) still sends its own hostname.
[[nodiscard]] bool is_allowed_host(std::string_view header, std::string_view own_host);

/// Returns true if an Origin header names this page; browsers omit the header in most GET requests.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host);

}  // namespace lockstep::dashboard
