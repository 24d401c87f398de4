// SPDX-License-Identifier: Apache-2.0
// The assignment problem, exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detection {

/// The columns of least total cost, one for each row, no column twice.
struct Assignment {
  std::vector<std::int64_t> column_of;  ///< column of each row; -1 where there are more rows than columns
  /// The proof: row[i] + column[j] <= cost(i, j) everywhere, with equality at the pairs; the prices of columns (of rows
  /// where those are more) that are not taken are 0, and none is above 0.
  std::vector<double> row_price;
  std::vector<double> column_price;
};

/// Shortest augmenting paths, O(n^2 m) for n <= m. Equal costs: the same answer each time.
///
/// Shapes: costs row by row, `rows` x `columns`; either may be 0.
/// Throws: UsageError where costs has another size or holds what is not finite.
/// Source: Jonker and Volgenant, A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems,
///         1987; Crouse, On Implementing 2D Rectangular Assignment Algorithms, 2016.
[[nodiscard]] Assignment assign(std::span<const float> costs, std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::detection
