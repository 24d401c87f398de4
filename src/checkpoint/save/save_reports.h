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

/// The result of an attempt: a folder to write to or the finished one, the files that were written, or the failure.
struct SaveReport {
  std::string folder;
  std::map<std::string, FileDigest> files;
  std::optional<FailureRecord> failure = {};  ///< none where there was no error
  bool again = false;                         ///< an fsync failed: everything must be written again, to new files
  bool not_finite = false;                    ///< the failure is a NotFiniteError

  [[nodiscard]] bool failed() const { return failure.has_value(); }
};

[[nodiscard]] SaveReport report_of(const std::exception& error);

[[nodiscard]] std::string to_bytes(const SaveReport& report);
/// Parses a report. Throws: InternalError.
[[nodiscard]] SaveReport save_report_from_bytes(const std::string& bytes);

/// Throws: always the error that the report describes.
[[noreturn]] void throw_report(const SaveReport& report);

}  // namespace lockstep::checkpoint
