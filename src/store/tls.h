// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 of the store's connections, by OpenSSL. A certificate proves that the server is one of those that the file
// names. The token proves that it is this job's server, and that no relay is in between: both proofs of the handshake
// contain the connection's channel binding (RFC 9266), which differs on the two sides of a relay. So a certificate need
// not carry the host's name.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::store {

using TlsContext = std::shared_ptr<SSL_CTX>;

/// For a server that shows the PEM file `certificate`. Throws: UsageError naming the file that cannot be used.
[[nodiscard]] TlsContext server_tls(const std::string& certificate, const std::string& key);
/// For a client that trusts the PEM file `trust`. Throws: UsageError naming the file if it holds no certificate.
[[nodiscard]] TlsContext client_tls(const std::string& trust);

/// 32 bytes that are equal on both ends of an encrypted connection and belong to no other one.
[[nodiscard]] std::string channel_binding(SSL* connection);

/// A client's end of an encrypted connection, without the socket: it turns words into records and back.
class TlsClient {
 public:
  enum class Step { kDone, kWantsBytes, kFailed };

  explicit TlsClient(const TlsContext& context);

  /// One step of the handshake. Send records() after each.
  Step shake_hands();
  /// Encrypts; send records() then. Returns false if the connection is broken.
  bool write(std::string_view words);
  /// Decrypts up to `count` bytes that arrived; `got` is their number, if it is done.
  Step read(char* to, std::size_t count, std::size_t& got);

  /// Takes bytes that have come from the network.
  void arrived(std::string_view records);
  /// The bytes to send to the network; empty if there are none.
  [[nodiscard]] std::string records();

  [[nodiscard]] std::string binding() { return channel_binding(connection_.get()); }
  /// The reason why the server's certificate is not trusted; empty if the certificate is not at fault.
  [[nodiscard]] std::string distrust() const;

 private:
  Step step_of(int result);

  TlsContext context_;
  std::unique_ptr<SSL, decltype(&::SSL_free)> connection_;
  BIO* incoming_;  // both belong to the connection
  BIO* outgoing_;
};

}  // namespace lockstep::store
