// SPDX-License-Identifier: Apache-2.0
// The first words of a connection between two ranks, and their keys. Pure functions; docs/design/network.md has the
// grammar and the threats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/store/proof.h"

namespace lockstep::wire {

using store::are_equal;
using store::hmac;
using store::kNonceBytes;
using store::make_nonce;

inline constexpr std::size_t kProofBytes = kNonceBytes;

/// The key of a group's connections, from the job's token (empty: the job has none) and the random seed that the
/// group's ranks share through their store.
[[nodiscard]] std::string wire_key(std::string_view token, std::string_view seed);

/// The caller, the called rank, and their circle.
struct Hello {
  bool is_encrypted = true;  ///< TLS follows; else the proofs of both ends
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t circle = 0;
  std::string nonce;  ///< of the caller

  bool operator==(const Hello&) const = default;
};

inline constexpr std::size_t kHelloBytes = 24 + kNonceBytes + kProofBytes;

/// The first words of a connection. `listener` is the nonce that the called rank has put into the store, so the words
/// are of no use elsewhere, or in a later run.
[[nodiscard]] std::string write_hello(const Hello& hello, std::string_view key, std::string_view listener);

/// Returns the hello if its writer knows the key; else none. Accepts any bytes and never throws.
[[nodiscard]] std::optional<Hello> read_hello(std::string_view words, std::string_view key, std::string_view listener);

/// The two ends of a connection as one of them sees them, such as "10.0.0.1 41230".
struct Route {
  std::string caller;
  std::string called;
};

enum class End { kCaller, kCalled };

/// The subject of the proofs of a connection without encryption. Both ends see the same route, unless a program between
/// them relays, or addresses are translated.
struct ProofFacts {
  std::string_view hello;  ///< its words
  std::string_view nonce;  ///< of the called end
  const Route& route;
};

/// The proof that an end knows the key, valid for this connection only.
[[nodiscard]] std::string prove_end(std::string_view key, End end, const ProofFacts& facts);

/// The pre-shared key of a connection's TLS, from its hello and the nonce of the called rank.
[[nodiscard]] std::string tls_key_of(std::string_view key, std::string_view hello, std::string_view listener);

}  // namespace lockstep::wire
