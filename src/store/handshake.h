// SPDX-License-Identifier: Apache-2.0
// How client and server prove to each other that they know the token without sending it: each answers the other's
// random number with an HMAC. Before a server with a certificate signs anything, a client knocks: it proves the same in
// the clear, so that a stranger costs an HMAC and no signature. Grammar: docs/formats/store.md.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/store/proof.h"

namespace lockstep::store {

/// Who speaks: a proof of one side is none of the other, so that nobody can send it back.
enum class Side { kClient, kServer };

struct Nonces {
  std::string client;
  std::string server;
  std::string binding = {};  ///< of the encrypted connection; empty: it is not encrypted
};

/// 32 bytes that only who knows `token` can make, for these two nonces only.
[[nodiscard]] std::string prove(std::string_view token, Side side, const Nonces& nonces);

/// True where `proof` is what prove() gives. Takes the same time wherever they differ.
[[nodiscard]] bool is_proof(std::string_view proof, std::string_view token, Side side, const Nonces& nonces);

/// The key of knocks, made of the token by PBKDF2. Who overhears a knock can try tokens on it, as on the proofs of a
/// connection that is not encrypted; each try costs what this costs, some hundredths of a second. So a token that a
/// person chose is not found at once, and one of 64 random digits never. Keeps the last one.
[[nodiscard]] std::string knock_key(const std::string& token);

/// 32 bytes that only who has the key can make, for these two nonces only. No proof, and no proof is a knock: their
/// keys and their words differ.
[[nodiscard]] std::string knock(std::string_view key, const Nonces& nonces);

/// True where `proof` is what knock() gives. Takes the same time wherever they differ.
[[nodiscard]] bool is_knock(std::string_view proof, std::string_view key, const Nonces& nonces);

}  // namespace lockstep::store
