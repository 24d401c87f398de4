// SPDX-License-Identifier: Apache-2.0
// The chain of a run's digests, digests.bin: one record a step (docs/formats/digests.md).
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
/// The name of a chain that did not lead to the checkpoint from which the run went on.
inline constexpr const char* kOldDigestFile = "digests.old.bin";

/// One step's digests.
struct DigestRecord {
  std::int64_t step = 0;        ///< from 1; at most 4,294,967,295
  std::uint64_t loss = 0;       ///< the bits of the loss, the mean over all replicas
  std::uint64_t gradients = 0;  ///< digest of the reduced gradients; 0: the step was left out
  std::uint64_t weights = 0;    ///< digest of the weights after the step

  bool operator==(const DigestRecord&) const = default;
};

/// Returns the fold of one step more, from `fold`, that of all steps before it.
[[nodiscard]] std::uint64_t fold_digest(std::uint64_t fold, const DigestRecord& record);

/// Returns a fold as 16 hexadecimal digits, as a checkpoint's manifest has it.
[[nodiscard]] std::string fold_text(std::uint64_t fold);
/// Reads one; 0: it is none.
[[nodiscard]] std::uint64_t fold_of(std::string_view text);

/// The begin of a chain: the step before it, and that step's fold.
struct DigestBegin {
  std::int64_t step = 0;
  std::uint64_t fold = 0;
};

/// The steps of one run, in ascending order. Steps may be missing, if the run had no digests for a while.
class DigestChain {
 public:
  /// Parses a file. Records are used up to the first one that is torn or damaged, as a kill leaves it.
  /// Throws: DataError, which begins with `name`, if the header is none or of another version.
  [[nodiscard]] static DigestChain parse(std::string_view bytes, const std::string& name);
  /// Adds the records in `bytes`, which follow whole_bytes() of the file, up to the first that is torn.
  void read_on(std::string_view bytes);
  /// Reads a run folder's chain, or the file `path`. Throws: as parse(); DataError if there is none.
  [[nodiscard]] static DigestChain load(const std::filesystem::path& path);

  [[nodiscard]] const DigestBegin& begin() const { return begin_; }
  [[nodiscard]] const std::vector<DigestRecord>& records() const { return records_; }
  /// Returns the bytes of a file with these records; later bytes are damaged.
  [[nodiscard]] std::size_t whole_bytes() const;

  /// Returns the record of `step`; null: there is none.
  [[nodiscard]] const DigestRecord* at(std::int64_t step) const;
  /// Returns the fold of all steps up to `step`.
  [[nodiscard]] std::uint64_t fold_up_to(std::int64_t step) const;
  /// Drops the steps after `step`.
  void cut_after(std::int64_t step);

 private:
  DigestBegin begin_;
  std::vector<DigestRecord> records_;
};

/// Two runs' records of the first step at which they differ.
struct DigestDifference {
  DigestRecord a;
  DigestRecord b;
};
/// Returns "loss, gradients, weights", or some of them.
[[nodiscard]] std::string differing_parts(const DigestDifference& found);
/// Compares the steps that both chains have. None: these are equal.
[[nodiscard]] std::optional<DigestDifference> first_difference(const DigestChain& a, const DigestChain& b);
/// Returns the number of steps that both chains have.
[[nodiscard]] std::int64_t common_steps(const DigestChain& a, const DigestChain& b);

/// Appends to a chain's file.
class DigestWriter {
 public:
  /// Opens the chain of `folder` for a run that goes on after `begin`, the place that its checkpoint names, and cuts
  /// the later records. A chain that leads elsewhere is renamed kOldDigestFile, with a warning, and another begins.
  /// Throws: IoError.
  DigestWriter(const std::filesystem::path& folder, const DigestBegin& begin);

  /// Appends a record with one write, so that a kill of the process leaves it whole or not at all. Throws: IoError; the
  /// file is then as before.
  void add(const DigestRecord& record);

 private:
  void begin_anew(const DigestBegin& begin);

  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace lockstep::view

#pragma GCC visibility pop
