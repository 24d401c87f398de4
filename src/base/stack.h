// SPDX-License-Identifier: Apache-2.0
// The frames of a stack and their names: functions and offsets, without source lines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::base {

/// Return addresses, innermost first.
struct Stack {
  static constexpr int kMost = 48;
  std::array<void*, kMost> frames = {};
  int count = 0;
};

/// Returns the caller's stack. Async-signal-safe after the first call, which loads libgcc.
[[nodiscard]] Stack capture_stack() noexcept;

/// Where an address lies in a file. `function` is the mangled name; "" if the file has no symbol for it.
struct Frame {
  const char* file = "";
  const char* function = "";
  std::uint64_t offset = 0;  ///< offset in the function; in the file if the function is unknown
};

/// Locates `address`. Allocates no memory, but leaves files mapped. Async-signal-safe if dladdr() is.
[[nodiscard]] Frame find_frame(const void* address) noexcept;

/// Returns one line per frame, "#0 Net::forward(at::Tensor)+0x1c (first_training)", without the frames of the throw
/// itself and those below main.
[[nodiscard]] std::string to_text(const Stack& stack);

}  // namespace lockstep::base
