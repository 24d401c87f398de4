// SPDX-License-Identifier: Apache-2.0
// Writes to the agent's stdout and stderr without blocking: a paused terminal or a pager that is not reading must not
// keep the agent from noticing a death.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "launch/output/line_mux.h"

namespace lockstep::launch {

class Console {
 public:
  Console() = default;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console() { drain(); }

  void put(int stream, std::string_view bytes);

  /// Returns the descriptor that output is waiting for; -1 if none is waiting.
  [[nodiscard]] int waiting_fd() const noexcept;
  /// Writes as much as possible without blocking.
  void write_some() noexcept;
  /// Returns true if enough bytes are waiting that no more output should be read from the workers.
  [[nodiscard]] bool is_full() const noexcept;
  /// Writes everything, blocking.
  void drain() noexcept;
  /// Discards the waiting bytes.
  void drop() noexcept;

  /// Returns the options for the current stdout and stderr.
  [[nodiscard]] static MuxOptions describe(ConsoleStyle style);

 private:
  struct Chunk {
    int stream;
    std::string bytes;
    std::size_t written = 0;
  };
  void write_front() noexcept;

  std::deque<Chunk> chunks_;
  std::size_t waiting_bytes_ = 0;
  bool is_closed_[2] = {false, false};
};

}  // namespace lockstep::launch
