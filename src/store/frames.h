// SPDX-License-Identifier: Apache-2.0
// Reads and sends whole frames on the server's end of a connection.
#pragma once

#include <asio.hpp>
#include <asio/ssl.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/tls.h"
#include "store/wire.h"

namespace lockstep::store {

/// The server's end of a connection, which can become encrypted. Every function is called on the io_context's thread.
/// Handlers get the error code, as asio's do.
class Stream {
 public:
  using Socket = asio::generic::stream_protocol::socket;  // a network or a local socket

  explicit Stream(Socket socket) : plain_(std::move(socket)) {}

  [[nodiscard]] Socket& socket() { return plain_; }
  /// Returns the channel binding; empty if the connection is not encrypted.
  [[nodiscard]] std::string binding() { return encrypted_ ? channel_binding(encrypted_->native_handle()) : ""; }

  /// Encrypts all later bytes. `tls` must outlive the stream.
  template <class Handler>
  void encrypt(asio::ssl::context& tls, Handler handler) {
    encrypted_.emplace(plain_, tls);
    encrypted_->async_handshake(asio::ssl::stream_base::server, std::move(handler));
  }
  template <class Buffer, class Handler>
  void read(const Buffer& to, Handler handler) {
    if (encrypted_) return asio::async_read(*encrypted_, to, std::move(handler));
    asio::async_read(plain_, to, std::move(handler));
  }
  template <class Buffer, class Handler>
  void write(const Buffer& from, Handler handler) {
    if (encrypted_) return asio::async_write(*encrypted_, from, std::move(handler));
    asio::async_write(plain_, from, std::move(handler));
  }

 private:
  Socket plain_;
  std::optional<asio::ssl::stream<Socket&>> encrypted_;
};

/// The frames of one connection. Only the server's thread uses it, as part of an object that the handlers keep alive.
class Frames {
 public:
  enum class Read : std::uint8_t { kBody, kTooLong, kNoMemory, kEnded };
  using Reader = std::function<void(Read, std::string_view body)>;
  /// Returns true if the connection may hold this many bytes in memory. Frames also calls it when it holds fewer.
  using MayHold = std::function<bool(std::size_t)>;

  Frames(Stream::Socket socket, MayHold may_hold) : stream_(std::move(socket)), may_hold_(std::move(may_hold)) {}

  [[nodiscard]] Stream& stream() { return stream_; }

  /// Reads one frame, and calls `on_frame` once. A frame of 0 bytes or of more than `limit` gives kTooLong.
  void read(std::uint32_t limit, Reader on_frame);

  /// Sends a frame after the earlier frames. Calls `on_end` if the connection breaks, and after the last frame. Returns
  /// false if too many bytes are waiting to be sent.
  [[nodiscard]] bool send(const std::string& frame, std::function<void()> on_end);
  /// Closes the connection after the frame that was sent last.
  void close_after_send() { closes_after_send_ = true; }

  [[nodiscard]] std::size_t bytes() const { return body_.capacity() + sending_.capacity() + queued_.capacity(); }

 private:
  void read_more(std::size_t have, std::uint32_t length, Reader on_frame);
  void write_queued(std::function<void()> on_end);
  void release(std::string& buffer);

  Stream stream_;
  MayHold may_hold_;
  bool closes_after_send_ = false;
  char header_[kHeaderBytes] = {};
  std::string body_;
  std::string sending_;
  std::string queued_;
};

}  // namespace lockstep::store
