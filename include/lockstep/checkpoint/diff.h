// SPDX-License-Identifier: Apache-2.0
// The differences between two checkpoints, entry by entry, as a value, as text and as JSON. The comparison is bit for
// bit, without a tolerance: equal states have the same digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Two different values with the same name, as strings.
struct ValueDifference {
  std::string name;  ///< the compared entry or file: "model/conv.weight", "config.yml"
  std::string a;     ///< the first side's value
  std::string b;     ///< the second side's value
};

/// A tensor of the same dtype and shape on both sides whose bits differ.
struct TensorDifference {
  std::string name;             ///< "model/conv.weight"
  std::string type;             ///< "float32 [64, 1, 3, 3]"
  std::int64_t elements = 0;    ///< number of all elements
  std::int64_t differing = 0;   ///< number of elements whose bits differ; -0 and 0 differ, NaNs with equal bits do not
  std::int64_t non_finite = 0;  ///< differing elements infinite or NaN on either side; the values below exclude them
  double largest_absolute = 0;  ///< largest |a - b|
  double largest_relative = 0;  ///< largest_absolute divided by the largest magnitude in either tensor
  std::optional<std::uint64_t> largest_ulps;  ///< largest distance in representable values; none unless floating-point
};

/// The outcome of diff_checkpoints(). Entries are named "<state>/<entry>" and sorted by name, except in `tensors`.
struct CheckpointDiff {
  std::filesystem::path path_a;           ///< the first checkpoint
  std::filesystem::path path_b;           ///< the second checkpoint
  std::string digest_a;                   ///< see checkpoint_digest()
  std::string digest_b;                   ///< checkpoint_digest() of the second
  std::int64_t entries = 0;               ///< number of entries in at least one checkpoint
  std::vector<ValueDifference> meta;      ///< differences of manifests and whole text files, only for display
  std::vector<std::string> only_in_a;     ///< entries only in the first
  std::vector<std::string> only_in_b;     ///< entries only in the second
  std::vector<ValueDifference> types;     ///< entries whose dtype or shape differs, or only one of which is a tensor
  std::vector<ValueDifference> values;    ///< plain values that differ, as canonical JSON
  std::vector<TensorDifference> tensors;  ///< worst first: non-finite ones, then by largest_relative and name

  /// Returns the number of entries that differ.
  [[nodiscard]] std::int64_t differing() const;
  /// Returns true if no entry differs.
  [[nodiscard]] bool equal() const { return differing() == 0; }
};

/// Compares all states of two checkpoints.
/// Cost: reads every state of both, and holds one state of each at a time.
/// Throws: DataError if a file is torn; IoError.
[[nodiscard]] CheckpointDiff diff_checkpoints(const Checkpoint& a, const Checkpoint& b);

/// Returns "equal: digest ...", or tables of differences, each with at most `limit` rows (0: all) and a count of the
/// rest.
[[nodiscard]] std::string to_text(const CheckpointDiff& diff, std::size_t limit = 20);

/// Returns one JSON object on one line with all differences. Its keys are the fields of CheckpointDiff, and "equal".
[[nodiscard]] std::string to_json(const CheckpointDiff& diff);

}  // namespace lockstep

#pragma GCC visibility pop
