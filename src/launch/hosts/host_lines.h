// SPDX-License-Identifier: Apache-2.0
// Merges the lines of many launchers for one console. Takes bytes and emits lines through a sink.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::launch {

/// Prefixes every line with the name of its host ("gpu-a: [0]: step 5"), so that no host can pose as another. Terminal
/// control characters are shown as "\x1b"; colours are stripped. A line printed by several launchers is shown once, or
/// as often as one launcher prints it. Indented lines belong to the line above them.
class HostLines {
 public:
  /// Takes the stream (0 stdout, 1 stderr) and whole lines with newlines; the lines from one feed() arrive together.
  using Sink = std::function<void(int stream, std::string_view lines)>;

  HostLines(std::vector<std::string> hosts, Sink sink) : hosts_(std::move(hosts)), sink_(std::move(sink)) {}

  void feed(int host, int stream, std::string_view bytes);
  /// If a stream ended without a newline, shows the rest of it as a line.
  void finish(int host, int stream);

 private:
  struct Said {
    std::map<int, int> times;  ///< number of times each host printed it
    int shown = 0;
  };

  struct Source {
    std::string partial;
    bool is_hidden = false;  ///< the previous line was hidden
  };

  void show(int host, int stream, std::string_view line);
  void flush(int stream);
  [[nodiscard]] bool is_repeated(int host, std::string_view line);

  std::vector<std::string> hosts_;
  Sink sink_;
  std::string shown_;                              ///< output of the current feed, until flush()
  std::map<std::pair<int, int>, Source> sources_;  ///< state of each stream, by host and stream
  std::map<std::string, Said, std::less<>> said_;
};

}  // namespace lockstep::launch
