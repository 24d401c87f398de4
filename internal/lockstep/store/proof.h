// SPDX-License-Identifier: Apache-2.0
// The parts of a proof of a secret: random bytes, keyed hashes, and a comparison whose time gives nothing away.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::store {

/// Bytes of a nonce, and of a proof.
inline constexpr std::size_t kNonceBytes = 32;

/// Returns random bytes that were never used before.
[[nodiscard]] std::string make_nonce();

/// Returns HMAC-SHA256.
[[nodiscard]] std::string hmac(std::string_view key, std::string_view words);

/// Returns true if the two are equal. Takes the same time wherever they differ.
[[nodiscard]] bool are_equal(std::string_view proof, std::string_view right);

/// Returns bytes as hexadecimal.
[[nodiscard]] std::string to_hex(std::string_view bytes);
/// Returns the bytes of hexadecimal; none if the text is something else.
[[nodiscard]] std::string from_hex(std::string_view text);

}  // namespace lockstep::store

#pragma GCC visibility pop
