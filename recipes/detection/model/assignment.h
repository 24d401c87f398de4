// SPDX-License-Identifier: Apache-2.0
// Solves the assignment problem exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detection {

/// A minimum-cost assignment: a column for each row, with no column used twice.
struct Assignment {
  std::vector<std::int64_t> column_of;  ///< column of each row; -1 if no column is left for it
  /// The dual solution, which proves optimality: row_price[i] + column_price[j] <= cost(i, j), with equality for
  /// assigned pairs. No column's price is above 0, and the prices of unassigned columns are 0; with more rows than
  /// columns, this holds for rows instead.
  std::vector<double> row_price;
  std::vector<double> column_price;
};

/// Solves the assignment problem by shortest augmenting paths, O(n^2 m) for n <= m. Ties are broken deterministically.
///
/// Shapes: costs in row-major order, `rows` x `columns`; either may be 0.
/// Throws: UsageError if costs has a different size or contains a non-finite value.
/// Source: Jonker and Volgenant, A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems,
///         1987; Crouse, On Implementing 2D Rectangular Assignment Algorithms, 2016.
[[nodiscard]] Assignment assign(std::span<const float> costs, std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::detection
