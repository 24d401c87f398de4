// SPDX-License-Identifier: Apache-2.0
// The chain of a run's digests, digests.bin, with one record per step (docs/formats/digests.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The chain's name in a run folder.
inline constexpr const char* kDigestFile = "digests.bin";
/// The name of an old chain that did not end at the checkpoint from which the run resumed.
inline constexpr const char* kOldDigestFile = "digests.old.bin";

/// One step's digests.
struct DigestRecord {
  std::int64_t step = 0;        ///< number of the step, from 1 to 4,294,967,295
  std::uint64_t loss = 0;       ///< the bits of the loss, the mean over all replicas
  std::uint64_t gradients = 0;  ///< digest of the reduced gradients; 0: the step was skipped
  std::uint64_t weights = 0;    ///< digest of the weights after the step

  bool operator==(const DigestRecord&) const = default;
};

/// Returns the fold of all steps up to and including that of `record`. `fold` is the fold of all earlier steps.
[[nodiscard]] std::uint64_t fold_digest(std::uint64_t fold, const DigestRecord& record);

/// Returns a fold as 16 hexadecimal digits, as in a checkpoint's manifest.
[[nodiscard]] std::string fold_text(std::uint64_t fold);
/// Reads the text of a fold; returns 0 if it is not a fold.
[[nodiscard]] std::uint64_t fold_of(std::string_view text);

/// The start of a chain: the step before its first record, and that step's fold.
struct DigestBegin {
  std::int64_t step = 0;
  std::uint64_t fold = 0;
};

/// The digests of one run, in ascending step order. Steps may be missing if digests were off for a while.
class DigestChain {
 public:
  /// Parses a file. Records are used up to the first torn or damaged record, such as one left by a killed process.
  /// Throws: DataError, which begins with `name`, if the header is missing or has a different version.
  [[nodiscard]] static DigestChain parse(std::string_view bytes, const std::string& name);
  /// Adds the records in `bytes`, the part of the file after whole_bytes(), up to the first torn record.
  void read_on(std::string_view bytes);
  /// Reads a run folder's chain, or the file `path`. Throws: anything parse() throws; DataError if there is no chain.
  [[nodiscard]] static DigestChain load(const std::filesystem::path& path);

  [[nodiscard]] const DigestBegin& begin() const { return begin_; }
  [[nodiscard]] const std::vector<DigestRecord>& records() const { return records_; }
  /// Returns the size of a file that holds only these records; in a longer file, the bytes beyond it are damaged.
  [[nodiscard]] std::size_t whole_bytes() const;

  /// Returns the record of `step`; null if there is none.
  [[nodiscard]] const DigestRecord* at(std::int64_t step) const;
  /// Returns the fold of all steps up to `step`.
  [[nodiscard]] std::uint64_t fold_up_to(std::int64_t step) const;
  /// Drops the steps after `step`.
  void cut_after(std::int64_t step);

 private:
  DigestBegin begin_;
  std::vector<DigestRecord> records_;
};

/// The records of two runs for the first step at which they differ.
struct DigestDifference {
  DigestRecord a;
  DigestRecord b;
};
/// Returns "loss, gradients, weights", or only the parts that differ.
[[nodiscard]] std::string differing_parts(const DigestDifference& found);
/// Compares the steps that both chains have; none: they are equal.
[[nodiscard]] std::optional<DigestDifference> first_difference(const DigestChain& a, const DigestChain& b);
/// Returns the number of steps that both chains have.
[[nodiscard]] std::int64_t common_steps(const DigestChain& a, const DigestChain& b);

/// Appends to a chain's file.
class DigestWriter {
 public:
  /// Opens the chain of `folder` for a run that resumes after `begin`, which comes from its checkpoint, and cuts off
  /// later records. If the chain has a different fold at that step, its file is renamed to kOldDigestFile, with a
  /// warning, and a new chain begins.
  /// Throws: IoError.
  DigestWriter(const std::filesystem::path& folder, const DigestBegin& begin);

  /// Appends a record with one write, so that even if the process is killed, the record is complete or absent. Throws:
  /// IoError, with an unchanged file.
  void add(const DigestRecord& record);

 private:
  void begin_anew(const DigestBegin& begin);

  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace lockstep::view

#pragma GCC visibility pop
