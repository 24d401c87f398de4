// SPDX-License-Identifier: Apache-2.0
// The frames of a stack and their names. No debugger's work: functions and offsets, no lines of source.
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

/// The caller's own. Async-signal-safe once it has been called before (it loads libgcc the first time).
[[nodiscard]] Stack capture_stack() noexcept;

/// Where an address lies. `function` is mangled, and "" where neither the file's symbols nor its exports have it.
struct Frame {
  const char* file = "";
  const char* function = "";
  std::uint64_t offset = 0;  ///< in the function, else in the file
};

/// Async-signal-safe as far as dladdr is: allocates nothing, maps the files that it reads and leaves them mapped.
[[nodiscard]] Frame find_frame(const void* address) noexcept;

/// "#0 Net::forward(at::Tensor)+0x1c (first_training)", a line a frame, without the frames that threw and those below
/// main.
[[nodiscard]] std::string to_text(const Stack& stack);

}  // namespace lockstep::base
