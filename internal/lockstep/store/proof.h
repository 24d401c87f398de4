// SPDX-License-Identifier: Apache-2.0
// The parts of a proof that a process knows a secret: random bytes, keyed hashes, and a comparison in constant time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::store {

/// Size of a nonce, and of a proof, in bytes.
inline constexpr std::size_t kNonceBytes = 32;

/// Returns kNonceBytes random bytes, for one use.
[[nodiscard]] std::string make_nonce();

/// Returns the HMAC-SHA256 of `words`.
[[nodiscard]] std::string hmac(std::string_view key, std::string_view words);

/// Returns true if the two are equal, in constant time.
[[nodiscard]] bool are_equal(std::string_view proof, std::string_view right);

/// Returns bytes as hexadecimal.
[[nodiscard]] std::string to_hex(std::string_view bytes);
/// Returns the bytes of a hexadecimal string; "" if it is not one.
[[nodiscard]] std::string from_hex(std::string_view text);

}  // namespace lockstep::store

#pragma GCC visibility pop
