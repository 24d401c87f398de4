// SPDX-License-Identifier: Apache-2.0
// Moves bytes in both directions over a non-blocking socket, unencrypted or with TLS 1.3 and a pre-shared key. Not
// thread-safe: one thread uses a stream at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/wire/circle.h"
#include "wire/hello.h"

namespace lockstep::wire {

/// Bytes to send.
struct Segment {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};
/// Memory for received bytes.
struct Room {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  /// Sends bytes from the start of the segments, in order. Returns their number; 0: the socket accepts no more now.
  [[nodiscard]] virtual std::size_t write(const std::vector<Segment>& segments) = 0;
  /// Fills `first`, then `second`. Returns the number of bytes; 0: none have arrived.
  [[nodiscard]] virtual std::size_t read(Room first, Room second) = 0;
  /// Hands the socket the bytes that write() accepted. Returns true if none are left.
  [[nodiscard]] virtual bool flush() { return true; }
  /// Performs the handshake. Returns true once it is complete; false if it must wait for the other end or the socket.
  /// Throws: ConnectionLost if the other end does not know the key.
  [[nodiscard]] virtual bool shake_hands() { return true; }
};

[[nodiscard]] std::unique_ptr<Stream> make_plain_stream(int fd);

/// Options of encrypted streams.
struct TlsOptions {
  /// After this many bytes a sender changes its key: AES-GCM allows 2^24.5 full records per key (RFC 8446, 5.5).
  std::uint64_t max_key_bytes = std::uint64_t{64} << 30;
};

/// Creates an encrypted stream: TLS 1.3 with OpenSSL, psk_dhe_ke (forward secrecy, no certificates), AES-128-GCM. The
/// descriptor must outlive it.
[[nodiscard]] std::unique_ptr<Stream> make_tls_stream(int fd, End end, const std::string& key,
                                                      const TlsOptions& options = {});

/// Reads from a socket with recvmsg(2). Returns 0 if no bytes have arrived. Throws: ConnectionLost.
[[nodiscard]] std::size_t receive_some(int fd, Room first, Room second);
/// Sends with sendmsg(2). Returns 0 if the socket accepts no bytes. Throws: ConnectionLost.
[[nodiscard]] std::size_t send_some(int fd, const std::vector<Segment>& segments);

}  // namespace lockstep::wire
