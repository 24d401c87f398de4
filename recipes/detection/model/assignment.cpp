// SPDX-License-Identifier: Apache-2.0
#include "detection/model/assignment.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Handles rows <= columns. Rows are added one at a time, each along the cheapest augmenting path to a free column.
class Solver {
 public:
  Solver(std::vector<double> costs, std::int64_t rows, std::int64_t columns)
      : costs_(std::move(costs)),
        rows_(static_cast<std::size_t>(rows)),
        columns_(static_cast<std::size_t>(columns)),
        row_price_(rows_),
        column_price_(columns_),
        row_of_(columns_, kNone),
        before_(columns_),
        distance_(columns_),
        reached_(columns_) {}

  void solve() {
    for (std::size_t row = 0; row < rows_; ++row) augment(row, find_end(row));
  }

  [[nodiscard]] const std::vector<double>& row_price() const { return row_price_; }
  [[nodiscard]] const std::vector<double>& column_price() const { return column_price_; }
  /// Returns the row of each column; -1 if it is free.
  [[nodiscard]] std::vector<std::int64_t> row_of() const { return {row_of_.begin(), row_of_.end()}; }

 private:
  static constexpr std::int64_t kNone = -1;

  /// Searches the columns from `start` with Dijkstra's algorithm, and updates the prices. Returns the free column
  /// found.
  std::size_t find_end(std::size_t start) {
    distance_.assign(columns_, kInfinity);
    reached_.assign(columns_, 0);
    std::size_t row = start;
    std::size_t column = columns_;  // column that led to `row`; the first row has none
    while (true) {
      const std::size_t next = relax(row, column);
      raise_prices(start, distance_[next]);
      column = next;
      reached_[column] = 1;
      if (row_of_[column] == kNone) return column;
      row = static_cast<std::size_t>(row_of_[column]);
    }
  }

  /// Updates the distances through `row`. Returns the nearest column that is not yet reached.
  std::size_t relax(std::size_t row, std::size_t column) {
    const double* costs = costs_.data() + row * columns_;
    std::size_t nearest = columns_;
    for (std::size_t j = 0; j < columns_; ++j) {
      if (reached_[j] != 0) continue;
      const double distance = costs[j] - row_price_[row] - column_price_[j];
      if (distance < distance_[j]) {
        distance_[j] = distance;
        before_[j] = column;
      }
      if (nearest == columns_ || distance_[j] < distance_[nearest]) nearest = j;
    }
    return nearest;
  }

  /// Makes the reduced cost of the step to the nearest column 0; no step has a negative cost after that.
  void raise_prices(std::size_t start, double amount) {
    row_price_[start] += amount;
    for (std::size_t j = 0; j < columns_; ++j) {
      if (reached_[j] != 0) {
        row_price_[static_cast<std::size_t>(row_of_[j])] += amount;
        column_price_[j] -= amount;
      } else {
        distance_[j] -= amount;
      }
    }
  }

  void augment(std::size_t start, std::size_t column) {
    while (before_[column] != columns_) {
      row_of_[column] = row_of_[before_[column]];
      column = before_[column];
    }
    row_of_[column] = static_cast<std::int64_t>(start);
  }

  std::vector<double> costs_;
  std::size_t rows_;
  std::size_t columns_;
  std::vector<double> row_price_;
  std::vector<double> column_price_;
  std::vector<std::int64_t> row_of_;
  std::vector<std::size_t> before_;
  std::vector<double> distance_;
  std::vector<char> reached_;
};

void check(std::span<const float> costs, std::int64_t rows, std::int64_t columns) {
  if (rows < 0 || columns < 0 || static_cast<std::int64_t>(costs.size()) != rows * columns) {
    throw UsageError(fmt::format("{} costs are not a matrix of {} x {}", costs.size(), rows, columns));
  }
  for (const float cost : costs) {
    if (!std::isfinite(cost)) throw UsageError(fmt::format("a cost is {}: only finite costs can be compared", cost));
  }
}

std::vector<double> transposed(std::span<const float> costs, std::int64_t rows, std::int64_t columns) {
  std::vector<double> out(costs.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out[static_cast<std::size_t>(j * rows + i)] = costs[static_cast<std::size_t>(i * columns + j)];
    }
  }
  return out;
}

}  // namespace

Assignment assign(std::span<const float> costs, std::int64_t rows, std::int64_t columns) {
  check(costs, rows, columns);
  if (rows > columns) {
    Solver solver(transposed(costs, rows, columns), columns, rows);
    solver.solve();
    return {.column_of = solver.row_of(), .row_price = solver.column_price(), .column_price = solver.row_price()};
  }
  Solver solver({costs.begin(), costs.end()}, rows, columns);
  solver.solve();
  Assignment found{.column_of = std::vector<std::int64_t>(static_cast<std::size_t>(rows)),
                   .row_price = solver.row_price(),
                   .column_price = solver.column_price()};
  const std::vector<std::int64_t> row_of = solver.row_of();
  for (std::size_t column = 0; column < row_of.size(); ++column) {
    if (row_of[column] >= 0)
      found.column_of[static_cast<std::size_t>(row_of[column])] = static_cast<std::int64_t>(column);
  }
  return found;
}

}  // namespace lockstep::detection
