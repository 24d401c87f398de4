// SPDX-License-Identifier: Apache-2.0
// A TCP connection of a store client, encrypted or not. It carries whole frames, each with an AwakeClock deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/clock.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/result.h"
#include "store/tls.h"
#include "store/wire.h"

namespace lockstep::store {

/// The result of an exchange with the server. kForeign: the bytes did not come from a store.
enum class Outcome { kDone, kLate, kGone, kForeign };

class Socket {
 public:
  explicit Socket(UniqueFd fd) : fd_(std::move(fd)) {}
  /// Tries every address of `host` once. Each address gets an equal share of the time that is left, since a firewall
  /// may drop the packets to one of them. A failure carries the system's message about the last address.
  static Result<Socket> connect(const std::string& host, std::uint16_t port, TimePoint deadline);

  /// Encrypts all later bytes. Also returns kGone for an untrusted certificate: distrust() has the reason.
  Outcome start_tls(const TlsContext& context, TimePoint deadline);
  [[nodiscard]] std::string distrust() const { return tls_ ? tls_->distrust() : ""; }
  /// Returns the channel binding; empty if the connection is not encrypted.
  [[nodiscard]] std::string binding() const { return tls_ ? tls_->binding() : ""; }

  Outcome send(const std::string& frame, TimePoint deadline);
  /// Receives a frame. `body` is only set for kDone. A frame larger than `limit` gives kForeign.
  Outcome receive(std::string& body, TimePoint deadline, std::uint32_t limit = kMaxFrameBytes);

  /// Wakes a thread inside send() or receive(), which then returns kGone. Any thread may call it.
  void shut_down() const noexcept;

 private:
  Outcome receive_bytes(char* to, std::size_t count, TimePoint deadline);
  Outcome send_plain(std::string_view bytes, TimePoint deadline);
  // Receives at least one byte and up to `count`.
  Outcome receive_plain(char* to, std::size_t count, TimePoint deadline, std::size_t& got);
  Outcome receive_records(TimePoint deadline);

  UniqueFd fd_;
  std::unique_ptr<TlsClient> tls_;  // null if the connection is not encrypted
};

}  // namespace lockstep::store
