// SPDX-License-Identifier: Apache-2.0
// Parts of a state: what one rank writes of it, and how the parts of any number of ranks become the whole again. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Which elements of a dense tensor, counted in the order of its memory, a part holds.
struct TensorSlice {
  std::int64_t begin = 0;
  std::vector<std::int64_t> shape;         ///< of the whole tensor
  std::vector<std::int64_t> strides = {};  ///< of the whole tensor; empty: row-major

  bool operator==(const TensorSlice&) const = default;
};

/// Whole entries, and one-dimensional pieces of tensors whose other elements other parts hold.
struct StatePart {
  StateDict entries;
  std::map<std::string, TensorSlice> slices;  ///< for each entry that is a piece
};

/// The part of `rank`: a share of the bytes that differs by less than one element from that of any other rank, in name
/// order. Plain values and tensors without elements are rank 0's.
///
/// Cost: copies nothing of contiguous tensors; their memory is shared.
[[nodiscard]] StatePart part_of(const StateDict& state, int rank, int world_size);

/// The whole state, whatever the number of parts that it was cut into.
///
/// Cost: copies only tensors that were cut.
/// Throws: DataError naming an entry that two parts hold, of which elements are missing or twice, or of which parts
///         disagree on dtype or shape.
[[nodiscard]] StateDict join_parts(const std::vector<StatePart>& parts);

}  // namespace lockstep

#pragma GCC visibility pop
