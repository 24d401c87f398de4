// SPDX-License-Identifier: Apache-2.0
// Access to the page: the token, and the names under which a browser may ask for it. Pure but for new_token().
#pragma once

#include <string>
#include <string_view>

namespace lockstep::dashboard {

/// Returns 32 random bytes as hexadecimal digits.
[[nodiscard]] std::string new_token();

/// Compares in a time that does not depend on the place of a difference.
[[nodiscard]] bool is_equal(std::string_view a, std::string_view b) noexcept;

/// Returns true if a Host header names an address, localhost, or `own_host`. A stranger's page whose name points to
/// this machine (DNS rebinding) sends its own name.
[[nodiscard]] bool is_allowed_host(std::string_view header, std::string_view own_host);

/// Returns true if an Origin header is that of this page; browsers leave it out of most GET requests.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host);

}  // namespace lockstep::dashboard
