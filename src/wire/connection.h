// SPDX-License-Identifier: Apache-2.0
// One connection to another rank: it opens, then carries messages in order. Its functions never block: the caller waits
// on the descriptor. Not thread-safe: one thread uses a connection at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lockstep/base/file_system.h"
#include "wire/frames.h"
#include "wire/opening.h"
#include "wire/stream.h"

namespace lockstep::wire {

class Connection {
 public:
  /// `fd` must be connected and non-blocking.
  Connection(UniqueFd fd, Opening opening);

  enum class Step { kUnderWay, kOpen, kRefused };
  /// Performs one step of the opening. Throws: ConnectionLost.
  Step open();

  /// Starts sending a message; `data` must live until is_sent().
  void send(const std::byte* data, std::size_t bytes) { sender_.add(data, bytes); }
  /// Receives the next message into `data`.
  void expect(std::byte* data, std::size_t bytes) { receiver_.expect(data, bytes); }

  /// Sends and receives as much as possible without waiting; the connection must be open. Returns true if any bytes
  /// moved. Throws: ConnectionLost, WrongLength.
  bool step();

  [[nodiscard]] bool is_sent() const noexcept { return sender_.is_done(); }
  [[nodiscard]] bool is_received() const noexcept { return receiver_.is_done(); }
  /// See FrameReceiver::received().
  [[nodiscard]] std::size_t received() const noexcept { return receiver_.received(); }
  void start() noexcept { receiver_.start(); }

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Returns the events of poll(2) to wait for.
  [[nodiscard]] short events() const noexcept;

 private:
  Step send_words();
  Step read_answer();

  UniqueFd fd_;
  Opening opening_;
  std::unique_ptr<Stream> stream_;  // null while the opening is under way
  std::string words_;               // bytes of the opening that have not been sent yet
  bool is_open_ = false;
  bool is_flushed_ = true;  // during the opening
  FrameSender sender_;
  FrameReceiver receiver_;
};

}  // namespace lockstep::wire
