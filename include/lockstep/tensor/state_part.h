// SPDX-License-Identifier: Apache-2.0
// Parts of a state: splits a state into the parts that the ranks write, and joins any number of parts. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The elements of a dense tensor that a part holds, counted in memory order.
struct TensorSlice {
  std::int64_t begin = 0;                  ///< the first element that the part holds
  std::vector<std::int64_t> shape;         ///< shape of the whole tensor
  std::vector<std::int64_t> strides = {};  ///< strides of the whole tensor; empty: row-major

  bool operator==(const TensorSlice&) const = default;
};

/// Whole entries, and one-dimensional pieces of tensors whose remaining elements are in other parts.
struct StatePart {
  StateDict entries;                          ///< entries of this part, by name
  std::map<std::string, TensorSlice> slices;  ///< one for each entry that is a piece
};

/// Returns the part of `rank`, in name order; its size differs by less than one element from that of any other rank's
/// part. Plain values and tensors without elements belong to rank 0.
///
/// Cost: the part shares the memory of contiguous tensors.
[[nodiscard]] StatePart part_of(const StateDict& state, int rank, int world_size);

/// Joins any number of parts into the whole state.
///
/// Cost: copies only tensors that were split.
/// Throws: DataError naming an entry that two parts hold, that lacks elements or has some twice, or whose parts
///         disagree on dtype or shape.
[[nodiscard]] StateDict join_parts(const std::vector<StatePart>& parts);

}  // namespace lockstep

#pragma GCC visibility pop
