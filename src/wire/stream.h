// SPDX-License-Identifier: Apache-2.0
// Bytes in both directions over a non-blocking socket, in the clear or in TLS 1.3 with a pre-shared key. Not
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

/// Bytes in memory.
struct Segment {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};
/// Room for bytes.
struct Room {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  /// Takes bytes from the beginning of the segments, in order. Returns their number; 0: the socket takes no more now.
  [[nodiscard]] virtual std::size_t write(const std::vector<Segment>& segments) = 0;
  /// Fills `first`, then `second`. Returns the number of bytes; 0: none are there now.
  [[nodiscard]] virtual std::size_t read(Room first, Room second) = 0;
  /// Hands to the socket the bytes that write() took. Returns true if none is left.
  [[nodiscard]] virtual bool flush() { return true; }
  /// The handshake. Returns true once it is over; false: the other end has to answer, or the socket takes no more.
  /// Throws: ConnectionLost if the other end does not know the key.
  [[nodiscard]] virtual bool shake_hands() { return true; }
};

[[nodiscard]] std::unique_ptr<Stream> make_plain_stream(int fd);

/// Options of encrypted streams.
struct TlsOptions {
  /// After so many bytes a sender takes new keys: AES-GCM allows 2^24.5 full records for each (RFC 8446, 5.5).
  std::uint64_t max_key_bytes = std::uint64_t{64} << 30;
};

/// An encrypted stream: TLS 1.3 by OpenSSL, psk_dhe_ke (forward secrecy, no certificates), AES-128-GCM. The
/// descriptor outlives it.
[[nodiscard]] std::unique_ptr<Stream> make_tls_stream(int fd, End end, const std::string& key,
                                                      const TlsOptions& options = {});

/// Reads from a socket as recvmsg(2) does. Returns 0 if no bytes are there. Throws: ConnectionLost.
[[nodiscard]] std::size_t receive_some(int fd, Room first, Room second);
/// Sends as sendmsg(2) does. Returns 0 if the socket takes none. Throws: ConnectionLost.
[[nodiscard]] std::size_t send_some(int fd, const std::vector<Segment>& segments);

}  // namespace lockstep::wire
