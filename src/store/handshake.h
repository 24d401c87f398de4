// SPDX-License-Identifier: Apache-2.0
// How client and server prove to each other that they know the token without sending it: each answers the other's
// random number with an HMAC. If the server has a certificate, a client first knocks: it proves the same in the clear.
// So a stranger costs an HMAC and no signature. Grammar: docs/formats/store.md.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/store/proof.h"

namespace lockstep::store {

/// The side of a proof. A proof of one side is not valid for the other, so it cannot be sent back.
enum class Side { kClient, kServer };

struct Nonces {
  std::string client;
  std::string server;
  std::string binding = {};  ///< of the encrypted connection; empty: it is not encrypted
};

/// Returns a proof: 32 bytes that only a holder of `token` can make, for these two nonces only.
[[nodiscard]] std::string prove(std::string_view token, Side side, const Nonces& nonces);

/// True if `proof` is that of prove(). Takes the same time wherever they differ.
[[nodiscard]] bool is_proof(std::string_view proof, std::string_view token, Side side, const Nonces& nonces);

/// The key of knocks, derived from the token by PBKDF2. An eavesdropper can try tokens on a knock, as on the proofs of
/// a connection that is not encrypted. Each try costs as much as this function, some hundredths of a second: a token
/// that a person chose is not found at once, and one of 64 random digits never. Keeps the last key.
[[nodiscard]] std::string knock_key(const std::string& token);

/// Returns a knock: 32 bytes that only a holder of the key can make, for these two nonces only. A knock is never a
/// proof, nor a proof a knock: their keys and their words differ.
[[nodiscard]] std::string knock(std::string_view key, const Nonces& nonces);

/// True if `proof` is that of knock(). Takes the same time wherever they differ.
[[nodiscard]] bool is_knock(std::string_view proof, std::string_view key, const Nonces& nonces);

}  // namespace lockstep::store
