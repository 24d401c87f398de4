// SPDX-License-Identifier: Apache-2.0
// Human-readable tables: aligned columns, printed as a whole or row by row as results arrive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/view/terminal.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// One column. Its width is fixed when the header is printed, because rows are printed one by one.
struct Column {
  std::string title;            ///< its heading
  int width = 0;                ///< the minimum width; a wider title sets the width
  Align align = Align::kRight;  ///< the side that its values are aligned to
  int leave_out = 0;            ///< drop order if the table is too wide, highest number first; 0: never dropped
};

/// A table that is printed row by row under a header. Lines have no trailing spaces; the text ends with a newline.
/// Example: Table table({{"epoch", 9}, {"loss", 8}}); print(table.header()); print(table.row({"1/150", "0.1042"}));
class Table {
 public:
  /// `width` is the width of the terminal; 0: no limit, no column is dropped.
  explicit Table(std::vector<Column> columns, int width = 0);

  /// Returns the titles and a rule below them.
  [[nodiscard]] std::string header() const;
  /// Returns one row. `cells` has one cell for every column, including dropped ones.
  /// Throws: UsageError if the numbers of cells and columns differ.
  [[nodiscard]] std::string row(const std::vector<std::string>& cells) const;

 private:
  [[nodiscard]] int width() const;

  std::vector<Column> columns_;
  std::vector<bool> is_shown_;
};

/// Returns the whole table; each column is as wide as its widest cell.
[[nodiscard]] std::string render_table(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows);

/// One kind of mistake by a classifier.
struct Confusion {
  std::string truth;       ///< the true class
  std::string predicted;   ///< the predicted class
  std::int64_t count = 0;  ///< number of these mistakes
};

/// Returns at most `limit` lines such as "predicted O for 0: 12 times", the most frequent first; if there are none, a
/// line that says so.
[[nodiscard]] std::string render_confusions(std::vector<Confusion> confusions, std::size_t limit = 10);

}  // namespace lockstep::view

#pragma GCC visibility pop
