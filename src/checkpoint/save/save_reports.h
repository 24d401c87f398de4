// SPDX-License-Identifier: Apache-2.0
// What the ranks of a save report to each other, as bytes. Pure.
#pragma once

#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/base/failure_record.h"
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// How far an attempt came: a folder to write to or the finished one, what was written, or why not.
struct SaveReport {
  std::string folder;
  std::map<std::string, FileDigest> files;
  std::optional<FailureRecord> failure = {};  ///< none where all is well
  bool again = false;                         ///< an fsync failed: to be written again, to new files

  [[nodiscard]] bool failed() const { return failure.has_value(); }
};

[[nodiscard]] SaveReport report_of(const std::exception& error);

[[nodiscard]] std::string to_bytes(const SaveReport& report);
/// Throws: InternalError.
[[nodiscard]] SaveReport save_report_from_bytes(const std::string& bytes);

/// Throws: the error that the report tells of, always.
[[noreturn]] void throw_report(const SaveReport& report);

}  // namespace lockstep::checkpoint
