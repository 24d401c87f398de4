// SPDX-License-Identifier: Apache-2.0
#include "wire/connection.h"

#include <poll.h>

#include <array>
#include <utility>

namespace lockstep::wire {

Connection::Connection(UniqueFd fd, Opening opening)
    : fd_(std::move(fd)), opening_(std::move(opening)), words_(opening_.words()) {}

Connection::Step Connection::open() {
  if (is_open_) return Step::kOpen;
  while (true) {
    if (const Step sent = send_words(); sent != Step::kOpen) return sent;
    if (opening_.step() == Opening::Step::kRefused) return Step::kRefused;
    if (opening_.step() == Opening::Step::kOpen) break;
    if (const Step read = read_answer(); read != Step::kOpen) return read;
  }
  if (!stream_) {
    stream_ = opening_.is_encrypted() ? make_tls_stream(fd_.get(), opening_.end(), opening_.tls_key())
                                      : make_plain_stream(fd_.get());
  }
  is_open_ = stream_->shake_hands();
  is_flushed_ = stream_->flush();
  return is_open_ ? Step::kOpen : Step::kUnderWay;
}

/// Sends the bytes of the opening. Returns kOpen once all are sent.
Connection::Step Connection::send_words() {
  while (!words_.empty()) {
    const std::size_t some = send_some(fd_.get(), {{reinterpret_cast<const std::byte*>(words_.data()), words_.size()}});
    if (some == 0) return Step::kUnderWay;
    words_.erase(0, some);
  }
  return Step::kOpen;
}

/// Reads bytes of the opening and none after it. Returns kOpen if bytes arrived; the opening may then be complete.
Connection::Step Connection::read_answer() {
  std::array<std::byte, kNonceBytes + kProofBytes> answer{};
  const std::size_t got = receive_some(fd_.get(), {}, {answer.data(), opening_.missing()});
  if (got == 0) return Step::kUnderWay;
  (void)opening_.arrived({reinterpret_cast<const char*>(answer.data()), got});
  words_ += opening_.words();
  return Step::kOpen;
}

bool Connection::step() {
  const bool has_sent = sender_.step(*stream_);
  return receiver_.step(*stream_) || has_sent;
}

short Connection::events() const noexcept {
  if (!is_open_) return static_cast<short>(words_.empty() && is_flushed_ ? POLLIN : POLLIN | POLLOUT);
  return static_cast<short>((is_received() ? 0 : POLLIN) | (is_sent() ? 0 : POLLOUT));
}

}  // namespace lockstep::wire
