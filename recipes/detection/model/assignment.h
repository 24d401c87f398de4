// SPDX-License-Identifier: Apache-2.0
// The assignment problem, exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detection {

/// An assignment of least total cost: a column for each row, and no column twice.
struct Assignment {
  std::vector<std::int64_t> column_of;  ///< column of each row; -1 if none is left for it
  /// The proof: row[i] + column[j] <= cost(i, j) everywhere, with equality at the pairs. No price of a column is above
  /// 0, and those of unassigned columns are 0; with more rows than columns, this holds for the rows instead.
  std::vector<double> row_price;
  std::vector<double> column_price;
};

/// Solves the assignment problem by shortest augmenting paths, O(n^2 m) for n <= m. Ties always break the same way.
///
/// Shapes: costs row by row, `rows` x `columns`; either may be 0.
/// Throws: UsageError if costs has another size or holds a value that is not finite.
/// Source: Jonker and Volgenant, A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems,
///         1987; Crouse, On Implementing 2D Rectangular Assignment Algorithms, 2016.
[[nodiscard]] Assignment assign(std::span<const float> costs, std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::detection
