// SPDX-License-Identifier: Apache-2.0
// The program's current position (section, rank, step), for use in reports. Signal handlers also read it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace lockstep::base {

/// Text in a fixed buffer, for a signal handler. It drops text that does not fit.
class FixedText {
 public:
  FixedText& add(const char* words) noexcept {
    const std::size_t count = std::strlen(words);
    const std::size_t room = text_.size() - 1 - used_;
    std::memcpy(text_.data() + used_, words, count < room ? count : room);
    used_ += count < room ? count : room;
    return *this;
  }
  /// Appends `value` in base 10 or 16.
  FixedText& add_number(std::uint64_t value, unsigned base = 10) noexcept {
    std::array<char, 24> digits = {};
    std::size_t at = digits.size() - 1;
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value > 0);
    return add(digits.data() + at);
  }
  void clear() noexcept {
    text_.fill('\0');
    used_ = 0;
  }
  [[nodiscard]] const char* c_str() const noexcept { return text_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }

 private:
  std::array<char, 16384> text_ = {};
  std::size_t used_ = 0;
};

struct Place {
  const char* section = nullptr;  ///< this thread's section; nullptr if none
  std::int64_t rank = -1;         ///< -1: unknown
  std::int64_t step = -1;
  std::int64_t epoch = -1;
  std::int64_t batch = -1;
};

/// Async-signal-safe.
[[nodiscard]] Place current_place() noexcept;
/// Adds " in forward (rank 1, step 13)", or nothing if the position is unknown. Async-signal-safe.
void add_place(FixedText& text, const Place& place) noexcept;

/// Returns the path of the launcher's error file; "" if there is none.
[[nodiscard]] std::string error_file_path();

/// Prints the exception being handled, and writes it to the launcher's error file. Returns: the exit code.
int report_current_exception() noexcept;

/// Reports SIGSEGV and similar signals from now on. An `error_file` of "" means none.
void install_signal_reports(const char* error_file) noexcept;
/// From now on, a thread that gets fault::stack_signal() writes its stack into `file`.
void install_stack_report(const char* file) noexcept;

}  // namespace lockstep::base
