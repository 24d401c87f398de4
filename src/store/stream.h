// SPDX-License-Identifier: Apache-2.0
// The server's end of a connection, encrypted or not.
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
  using Tcp = asio::ip::tcp::socket;

  /// Null `tls`: not encrypted. It has to outlive the stream.
  Stream(Tcp socket, asio::ssl::context* tls) : plain_(std::move(socket)) {
    if (tls != nullptr) encrypted_.emplace(plain_, *tls);
  }

  [[nodiscard]] Tcp& socket() { return plain_; }
  [[nodiscard]] bool is_encrypted() const { return encrypted_.has_value(); }
  /// Empty where the connection is not encrypted.
  [[nodiscard]] std::string binding() { return encrypted_ ? channel_binding(encrypted_->native_handle()) : ""; }

  /// Only where it is encrypted, and before anything else.
  template <class Handler>
  void shake_hands(Handler handler) {
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
  Tcp plain_;
  std::optional<asio::ssl::stream<Tcp&>> encrypted_;
};

}  // namespace lockstep::store
