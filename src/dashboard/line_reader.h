// SPDX-License-Identifier: Apache-2.0
// Reads a growing file line by line, reading each byte once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::dashboard {

/// Text after the last line end is kept until the line is complete. A file that has become shorter, as when a run
/// resumes from an earlier step, or was replaced, is reread from its start.
class LineReader {
 public:
  explicit LineReader(std::filesystem::path file) : file_(std::move(file)) {}

  /// The result of a call.
  struct Progress {
    bool restarted = false;    ///< the file is being reread from its start, so discard earlier lines
    std::uint64_t read = 0;    ///< bytes that this call read
    bool is_complete = false;  ///< the end of the file was reached
  };
  using Use = std::function<void(std::string_view)>;
  /// Reads at most `most` bytes, and calls `restart` before it rereads a file from its start.
  Progress read(std::uint64_t most, const std::function<void()>& restart, const Use& line);

  /// Returns the number of bytes of the file that were read.
  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }
  /// Returns the size of the file at the last call to read().
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
