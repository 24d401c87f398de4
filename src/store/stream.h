// SPDX-License-Identifier: Apache-2.0
// The server's end of a connection, plain or, from some moment on, encrypted.
#pragma once

#include <asio.hpp>
#include <asio/ssl.hpp>
#include <optional>
#include <string>
#include <utility>

#include "store/tls.h"

namespace lockstep::store {

/// Every function is called by the thread of the io_context. Handlers get the error code, as asio's do.
class Stream {
 public:
  using Socket = asio::generic::stream_protocol::socket;  // of the network, or of this process

  explicit Stream(Socket socket) : plain_(std::move(socket)) {}

  [[nodiscard]] Socket& socket() { return plain_; }
  /// Empty where the connection is not encrypted.
  [[nodiscard]] std::string binding() { return encrypted_ ? channel_binding(encrypted_->native_handle()) : ""; }

  /// What comes after is encrypted. `tls` has to outlive the stream.
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

}  // namespace lockstep::store
