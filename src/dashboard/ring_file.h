// SPDX-License-Identifier: Apache-2.0
// A rank's flight ring, mapped once and read while the rank writes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/flight/snapshot.h"

namespace lockstep::dashboard {

/// While the launcher lives, the file is a link to its memory, which is mapped; what it keeps at the end is read.
class RingFile {
 public:
  explicit RingFile(std::filesystem::path file) : file_(std::move(file)) {}
  ~RingFile();
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  /// Returns where the rank is, without events; none: it has no ring, or has not begun it.
  [[nodiscard]] std::optional<flight::Snapshot> state();
  /// The same with its events.
  [[nodiscard]] std::optional<flight::Snapshot> events();

 private:
  [[nodiscard]] bool is_link() const;
  [[nodiscard]] bool map();
  void unmap();

  std::filesystem::path file_;
  std::string target_;  // of the link that is mapped
  const flight::Ring* ring_ = nullptr;
  std::optional<flight::Snapshot> kept_;
  std::filesystem::file_time_type kept_time_;
};

}  // namespace lockstep::dashboard
