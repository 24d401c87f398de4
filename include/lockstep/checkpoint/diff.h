// SPDX-License-Identifier: Apache-2.0
// The differences of two checkpoints, entry by entry, as a value and as texts for a person and for a program. Bits
// decide, not a tolerance: equal states have the same digest.
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

/// The values of both sides under one name, as texts.
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
  std::int64_t differing = 0;   ///< number of elements with different bits; equal NaNs are equal, -0 and 0 are not
  std::int64_t non_finite = 0;  ///< number of differing elements that are infinite or NaN on a side; the values below
                                ///< leave them out
  double largest_absolute = 0;  ///< largest |a - b|
  double largest_relative = 0;  ///< largest_absolute as a share of the largest magnitude in either tensor
  std::optional<std::uint64_t> largest_ulps;  ///< steps of the floating type between a and b; none for other types
};

/// The outcome of diff_checkpoints(). Entries are named "<state>/<entry>" and sorted by name, except in `tensors`.
struct CheckpointDiff {
  std::filesystem::path path_a;         ///< the first checkpoint
  std::filesystem::path path_b;         ///< the second checkpoint
  std::string digest_a;                 ///< see checkpoint_digest()
  std::string digest_b;                 ///< that of the second
  std::int64_t entries = 0;             ///< number of entries in either
  std::vector<ValueDifference> meta;    ///< differences of manifests and (whole) texts, for display; they do not belong
                                        ///< to the state
  std::vector<std::string> only_in_a;   ///< entries that only the first has
  std::vector<std::string> only_in_b;   ///< entries that only the second has
  std::vector<ValueDifference> types;   ///< tensors whose dtype or shape differs, or a tensor against a plain value
  std::vector<ValueDifference> values;  ///< plain values, as canonical JSON
  std::vector<TensorDifference> tensors;  ///< the worst first: not finite, then by largest_relative, then by name

  /// Returns how many entries differ.
  [[nodiscard]] std::int64_t differing() const;
  /// Returns true if no entry differs.
  [[nodiscard]] bool equal() const { return differing() == 0; }
};

/// Compares all states of two checkpoints.
/// Cost: reads every state of both; holds one state of each at a time.
/// Throws: DataError if a file is torn; IoError.
[[nodiscard]] CheckpointDiff diff_checkpoints(const Checkpoint& a, const Checkpoint& b);

/// Returns "equal: digest ...", or tables of the differences, each with at most `limit` rows (0: all) and a count of
/// the rest.
[[nodiscard]] std::string to_text(const CheckpointDiff& diff, std::size_t limit = 20);

/// Returns one JSON object on one line with all differences. Its keys are those of CheckpointDiff, and "equal".
[[nodiscard]] std::string to_json(const CheckpointDiff& diff);

}  // namespace lockstep

#pragma GCC visibility pop
