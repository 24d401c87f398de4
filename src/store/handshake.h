// SPDX-License-Identifier: Apache-2.0
// How client and server prove to each other that they know the token without sending it: each answers the other's
// random number with an HMAC. Grammar: docs/formats/store.md.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::store {

inline constexpr std::size_t kNonceBytes = 32;

/// Who speaks: a proof of one side is none of the other, so that nobody can send it back.
enum class Side { kClient, kServer };

struct Nonces {
  std::string client;
  std::string server;
  std::string binding = {};  ///< of the encrypted connection; empty: it is not encrypted
};

/// Random bytes that were never used before.
[[nodiscard]] std::string make_nonce();

/// 32 bytes that only who knows `token` can make, for these two nonces only.
[[nodiscard]] std::string prove(std::string_view token, Side side, const Nonces& nonces);

/// True where `proof` is what prove() gives. Takes the same time wherever they differ.
[[nodiscard]] bool is_proof(std::string_view proof, std::string_view token, Side side, const Nonces& nonces);

}  // namespace lockstep::store
