// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 for the store's connections, with OpenSSL. A certificate proves that the file of trusted certificates
// includes the server. The token proves that the server is this job's, and that there is no relay: both proofs of the
// handshake contain the connection's channel binding (RFC 9266), which differs on the two sides of a relay. So a
// certificate need not contain the host's name.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::store {

using TlsContext = std::shared_ptr<SSL_CTX>;

/// Creates the context of a server that presents the PEM file `certificate`. Throws: UsageError naming an invalid file.
[[nodiscard]] TlsContext server_tls(const std::string& certificate, const std::string& key);
/// Creates the context of a client that trusts the PEM file `trust`. Throws: UsageError naming an invalid file.
[[nodiscard]] TlsContext client_tls(const std::string& trust);

/// Returns 32 bytes that both ends of an encrypted connection share and that no other connection has.
[[nodiscard]] std::string channel_binding(SSL* connection);

/// A client's end of an encrypted connection, without the socket: it turns bytes into TLS records and back.
class TlsClient {
 public:
  enum class Step { kDone, kWantsBytes, kFailed };

  explicit TlsClient(const TlsContext& context);

  /// Performs one step of the handshake. Send records() after each step.
  Step shake_hands();
  /// Encrypts `words`; send records() afterwards. Returns false if the connection is broken.
  bool write(std::string_view words);
  /// Decrypts up to `count` bytes that have arrived. For kDone, `got` is the number of decrypted bytes.
  Step read(char* to, std::size_t count, std::size_t& got);

  /// Takes bytes that have arrived from the network.
  void arrived(std::string_view records);
  /// Returns the bytes to send to the network; empty if there are none.
  [[nodiscard]] std::string records();

  [[nodiscard]] std::string binding() { return channel_binding(connection_.get()); }
  /// Returns the reason why the server's certificate is not trusted; empty if the certificate is not the problem.
  [[nodiscard]] std::string distrust() const;

 private:
  Step step_of(int result);

  TlsContext context_;
  std::unique_ptr<SSL, decltype(&::SSL_free)> connection_;
  BIO* incoming_;  // connection_ owns both
  BIO* outgoing_;
};

}  // namespace lockstep::store
