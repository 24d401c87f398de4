// SPDX-License-Identifier: Apache-2.0
// Supports a run across several hosts without a secret, as in torchrun: the user names a trusted network, and the store
// and the ranks reject all other addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep::store {

class TrustedNetwork {
 public:
  /// `text` is "192.168.1.0/24" or "fd00::/64". Throws: UsageError if it is not a network, or is wider than a /8.
  explicit TrustedNetwork(const std::string& text);

  /// Returns the network, with the host's bits zero: "192.168.1.0/24".
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Returns true for a numeric address in the network, and for this machine's loopback.
  [[nodiscard]] bool contains(const std::string& address) const;
  /// Returns true if `host` resolves only to addresses in the network. Blocks: on the name server.
  [[nodiscard]] bool contains_host(const std::string& host) const;
  /// Returns the token of a run without a secret: anyone can derive it from text().
  [[nodiscard]] std::string token() const { return "no secret, open to " + text_; }

 private:
  std::string text_;
};

/// Returns the network in LOCKSTEP_TRUST_NETWORK, which this process trusts instead of a secret; usually none. The
/// launcher sets the variable. Throws: anything the constructor throws.
[[nodiscard]] std::optional<TrustedNetwork> trusted_network();

}  // namespace lockstep::store

#pragma GCC visibility pop
