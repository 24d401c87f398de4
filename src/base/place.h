// SPDX-License-Identifier: Apache-2.0
// Where the program is: noted as it goes, read by reports, also in a signal handler.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace lockstep::base {

/// Text in memory of its own, for a signal handler: what does not fit is left out.
class FixedText {
 public:
  FixedText& add(const char* words) noexcept {
    const std::size_t count = std::strlen(words);
    const std::size_t room = text_.size() - 1 - used_;
    std::memcpy(text_.data() + used_, words, count < room ? count : room);
    used_ += count < room ? count : room;
    return *this;
  }
  /// In base 10 or 16.
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
  const char* section = nullptr;  ///< section of this thread
  std::int64_t rank = -1;         ///< -1: not known
  std::int64_t step = -1;
  std::int64_t epoch = -1;
  std::int64_t batch = -1;
};

/// Async-signal-safe.
[[nodiscard]] Place current_place() noexcept;
/// " in forward (rank 1, step 13)"; "" where nothing is known. Async-signal-safe.
void add_place(FixedText& text, const Place& place) noexcept;

/// The launcher's error file; "" where there is none.
[[nodiscard]] std::string error_file_path();

/// Prints the exception that is being handled, writes it to the launcher's error file. Returns: the exit code.
int report_current_exception() noexcept;

/// SIGSEGV and its like, from here on. `error_file`: "" for none.
void install_signal_reports(const char* error_file) noexcept;
/// The stack of a thread that takes fault::stack_signal(), from here on, into `file`.
void install_stack_report(const char* file) noexcept;

}  // namespace lockstep::base
