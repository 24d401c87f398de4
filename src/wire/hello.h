// SPDX-License-Identifier: Apache-2.0
// The first words of a connection between two ranks, and the keys that they take. Pure functions; the grammar and the
// threats that they meet are in docs/design/network.md.
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

/// Who calls whom, and for which circle of ranks.
struct Hello {
  bool is_encrypted = true;  ///< TLS follows, else the proofs of both ends
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t circle = 0;
  std::string nonce;  ///< of the caller

  bool operator==(const Hello&) const = default;
};

inline constexpr std::size_t kHelloBytes = 24 + kNonceBytes + kProofBytes;

/// The words with which a connection opens. `listener` is the nonce that the called rank has put into the store: they
/// are of no use elsewhere, or to a later run.
[[nodiscard]] std::string write_hello(const Hello& hello, std::string_view key, std::string_view listener);

/// Returns the hello where who wrote it knows the key. Never throws, whatever the bytes are.
[[nodiscard]] std::optional<Hello> read_hello(std::string_view words, std::string_view key, std::string_view listener);

/// The two ends of a connection as one of them sees them, for instance "10.0.0.1 41230".
struct Route {
  std::string caller;
  std::string called;
};

enum class End { kCaller, kCalled };

/// What the proofs of a connection without encryption are about. Both ends see the same route, unless a program
/// between them relays, or addresses are translated.
struct ProofFacts {
  std::string_view hello;  ///< its words
  std::string_view nonce;  ///< of the called end
  const Route& route;
};

/// The proof of an end that knows the key, valid for this connection only.
[[nodiscard]] std::string prove_end(std::string_view key, End end, const ProofFacts& facts);

/// The pre-shared key of a connection's TLS, from its hello and the nonce of the called rank.
[[nodiscard]] std::string tls_key_of(std::string_view key, std::string_view hello, std::string_view listener);

}  // namespace lockstep::wire
