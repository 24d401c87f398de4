// SPDX-License-Identifier: Apache-2.0
// The proofs by which client and server show each other that they know the token without sending it: each answers the
// other's random number with an HMAC. If the server has a certificate, a client first knocks: it sends such a proof
// before encryption begins. So a stranger costs an HMAC, not a signature. docs/formats/store.md has the grammar.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/store/proof.h"

namespace lockstep::store {

/// The side of a proof. A proof by one side is not valid for the other side, so it cannot be reflected.
enum class Side { kClient, kServer };

struct Nonces {
  std::string client;
  std::string server;
  std::string binding = {};  ///< channel binding of the connection; empty if it is not encrypted
};

/// Returns a proof: 32 bytes that only a holder of `token` can produce, valid for these two nonces only.
[[nodiscard]] std::string prove(std::string_view token, Side side, const Nonces& nonces);

/// Returns true if `proof` is the result of prove(). The comparison takes constant time.
[[nodiscard]] bool is_proof(std::string_view proof, std::string_view token, Side side, const Nonces& nonces);

/// Returns the knock key, derived from the token by PBKDF2. An eavesdropper can test guesses of the token against a
/// knock, as against the proofs of an unencrypted connection. Each guess costs one call of this function, a few
/// hundredths of a second: finding a token that a person chose takes a long time, and a token of 64 random digits is
/// never found. Caches the last key.
[[nodiscard]] std::string knock_key(const std::string& token);

/// Returns a knock: 32 bytes that only a holder of the key can produce, valid for these two nonces only. A knock is
/// never a valid proof, and a proof never a valid knock: their keys and their messages differ.
[[nodiscard]] std::string knock(std::string_view key, const Nonces& nonces);

/// Returns true if `proof` is the result of knock(). The comparison takes constant time.
[[nodiscard]] bool is_knock(std::string_view proof, std::string_view key, const Nonces& nonces);

}  // namespace lockstep::store
