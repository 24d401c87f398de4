// SPDX-License-Identifier: Apache-2.0
// Merges the output of many ranks for one console: whole lines with a prefix, and on a terminal rank 0's progress bar
// below them. Takes bytes and emits bytes through a sink.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/launch/agent.h"

namespace lockstep::launch {

struct MuxOptions {
  ConsoleStyle style = ConsoleStyle::kPrefix;
  bool is_terminal[2] = {false, false};  ///< stdout, stderr
  std::size_t width = 80;                ///< columns of the terminal
  /// The prefix of a rank's lines; if empty, "[<rank>]: ".
  std::function<std::string(int rank)> prefix_of = {};
};

class LineMux {
 public:
  /// Takes the stream (0 stdout, 1 stderr) and bytes for the console.
  using Sink = std::function<void(int stream, std::string_view bytes)>;

  LineMux(const MuxOptions& options, Sink sink) : options_(options), sink_(std::move(sink)) {}

  /// Takes bytes from a rank. The sink receives the resulting output in one piece.
  void feed(int rank, int stream, std::string_view bytes);
  /// If a stream ended without a newline, shows the rest of it as a line.
  void finish(int rank, int stream);
  /// Shows the unfinished line, such as a prompt, after a moment without output.
  void idle();
  [[nodiscard]] bool wants_idle() const;

 private:
  using Source = std::pair<int, int>;  // rank, stream

  // The text on the terminal's last line, which has no newline.
  struct Live {
    Source source{-1, 0};
    std::string text;
  };

  void feed_raw(int stream, std::string_view bytes);
  void feed_lines(const Source& source, std::string_view bytes);
  void emit_line(const Source& source, std::string_view line);
  void flush(int stream);
  void show_live(const Source& source, std::string text);
  [[nodiscard]] bool is_shown(const Source& source) const;
  [[nodiscard]] bool is_repeated_error(const Source& source, std::string_view line);
  [[nodiscard]] bool is_new_error(int rank, std::string_view line);
  [[nodiscard]] std::string make_prefix(int rank) const;
  [[nodiscard]] const std::string& prefix(int rank);

  MuxOptions options_;
  Sink sink_;
  std::string shown_;  ///< output of the current feed, until flush()
  std::map<int, std::string> prefixes_;
  std::map<Source, std::string> partial_;
  std::set<Source> in_error_;  ///< streams whose last line was part of an error that is not shown
  std::map<std::string, int, std::less<>> shown_errors_;  ///< first line of each shown error, and its rank
  Source last_fed_{-1, 0};
  Live live_;
};

/// Returns the part of a line that a terminal shows after carriage returns: the last non-empty piece.
[[nodiscard]] std::string_view last_piece(std::string_view line);

/// Returns `line` without the colours written by a rank that had a terminal.
[[nodiscard]] std::string without_colours(std::string_view line);

}  // namespace lockstep::launch
