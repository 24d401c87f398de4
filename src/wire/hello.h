// SPDX-License-Identifier: Apache-2.0
// The first messages of a connection between two ranks, and their keys. All functions are pure; docs/design/network.md
// describes the grammar and the threats.
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

/// Returns the key of a group's connections, derived from the job's token (empty if the job has none) and the random
/// seed that the group's ranks share through their store.
[[nodiscard]] std::string wire_key(std::string_view token, std::string_view seed);

/// The hello of a connection: the calling rank, the called rank, and their circle.
struct Hello {
  bool is_encrypted = true;  ///< true: TLS follows; false: the proofs of both ends follow
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t circle = 0;
  std::string nonce;  ///< nonce of the calling rank

  bool operator==(const Hello&) const = default;
};

inline constexpr std::size_t kHelloBytes = 24 + kNonceBytes + kProofBytes;

/// Returns the bytes of the hello. `listener` is the nonce that the called rank has put into the store, so the hello is
/// useless for another rank or in a later run.
[[nodiscard]] std::string write_hello(const Hello& hello, std::string_view key, std::string_view listener);

/// Returns the hello if its sender knows the key; else none. Safe for any bytes; never throws.
[[nodiscard]] std::optional<Hello> read_hello(std::string_view words, std::string_view key, std::string_view listener);

/// The addresses of both ends of a connection, such as "10.0.0.1 41230", as one end sees them.
struct Route {
  std::string caller;
  std::string called;
};

enum class End { kCaller, kCalled };

/// The facts that the proofs of an unencrypted connection cover. Both ends see the same route, unless there is a relay
/// or address translation between them.
struct ProofFacts {
  std::string_view hello;  ///< bytes of the hello
  std::string_view nonce;  ///< nonce of the called end
  const Route& route;
};

/// Returns the proof that an end knows the key; it is valid only for this connection.
[[nodiscard]] std::string prove_end(std::string_view key, End end, const ProofFacts& facts);

/// Returns the pre-shared key of a connection's TLS, derived from its hello and the nonce of the called rank.
[[nodiscard]] std::string tls_key_of(std::string_view key, std::string_view hello, std::string_view listener);

}  // namespace lockstep::wire
