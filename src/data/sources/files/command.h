// SPDX-License-Identifier: Apache-2.0
// Reads bytes from a file or from the output of a shell command. No torch header.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "lockstep/base/file_system.h"

namespace lockstep::data {

/// Thread-safe: no.
class ByteStream {
 public:
  /// Throws: DataError if the file is missing or not a regular file; IoError.
  static ByteStream open_file(const std::string& path);
  /// Runs `/bin/sh -c command`, without input. Throws: IoError.
  static ByteStream run_command(const std::string& command);
  ~ByteStream();
  ByteStream(ByteStream&& other) noexcept;
  ByteStream& operator=(ByteStream&&) = delete;

  /// Reads `size` bytes, or fewer at the end. Blocks: yes. Throws: IoError.
  std::size_t read(char* to, std::size_t size);
  /// Reads to the end and waits for the command.
  /// Throws: DataError with the command's exit status or signal if it failed.
  void close();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  ByteStream(std::string name, UniqueFd fd, pid_t child) : name_(std::move(name)), fd_(std::move(fd)), child_(child) {}

  std::string name_;
  UniqueFd fd_;
  pid_t child_ = -1;
};

}  // namespace lockstep::data
