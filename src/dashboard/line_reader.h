// SPDX-License-Identifier: Apache-2.0
// Reads a file that grows, line by line, and each byte once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::dashboard {

/// Text after the last line end is kept until the rest of the line comes. A file that has become shorter, as when a run
/// resumes from an earlier step, or that is another one, is read from its start.
class LineReader {
 public:
  explicit LineReader(std::filesystem::path file) : file_(std::move(file)) {}

  /// The result of a call.
  struct Progress {
    bool restarted = false;    ///< forget the lines so far: the file is read from its start
    std::uint64_t read = 0;    ///< bytes of this call
    bool is_complete = false;  ///< nothing is left
  };
  using Use = std::function<void(std::string_view)>;
  /// Reads at most `most` bytes, and calls `restart` before the first line of a file that begins anew.
  Progress read(std::uint64_t most, const std::function<void()>& restart, const Use& line);

  /// Returns how many bytes were read of the file.
  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }
  /// Returns the file's size at the last call.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  void hand_out(const Use& line);

  std::filesystem::path file_;
  std::uint64_t at_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t inode_ = 0;
  std::string rest_;
};

}  // namespace lockstep::dashboard
