// SPDX-License-Identifier: Apache-2.0
// Writes one lower-case line per event to stderr, with a level for its audience. The code that decides how to handle an
// error logs it, once. The level is LOCKSTEP_LOG (error, warn, note, info, debug, trace; default note).
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::log {

/// error: the run ends. warn: the user should change something. note: an adjustment that a user would want to know.
/// info: a state changed. debug: details for developers. trace: every collective.
enum class Level { kError, kWarn, kNote, kInfo, kDebug, kTrace };

/// The names of the levels, as in LOCKSTEP_LOG and --log-level.
inline constexpr std::array<std::string_view, 6> kLevelNames{"error", "warn", "note", "info", "debug", "trace"};

/// Returns true if lines of `level` are written.
[[nodiscard]] bool is_enabled(Level level) noexcept;

/// Writes one line. Thread-safe: yes.
void write(Level level, std::string_view line) noexcept;

/// While an object created with `on` = true exists, this process writes no notes. Ranks use it so that only one of them
/// writes a note that concerns all of them. Thread-safe: yes.
class [[nodiscard]] QuietNotes {
 public:
  explicit QuietNotes(bool on) noexcept;
  ~QuietNotes();
  QuietNotes(const QuietNotes&) = delete;
  QuietNotes& operator=(const QuietNotes&) = delete;

 private:
  bool on_;
};

/// Writes a line of level error: something has failed.
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}
/// Writes a line of level warn: something is wrong, but the run continues.
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
/// Writes a line of level note: something that a user may want to know. It is shown unless LOCKSTEP_LOG says otherwise.
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kNote, fmt::format(format, std::forward<Args>(args)...));
}
/// Writes a line of level info, which is shown with LOCKSTEP_LOG=info.
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
/// Writes a line of level debug, which is shown with LOCKSTEP_LOG=debug.
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kDebug)) write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
/// Writes a line of level trace, which is shown with LOCKSTEP_LOG=trace.
template <class... Args>
void trace(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::kTrace)) write(Level::kTrace, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep::log

#pragma GCC visibility pop
