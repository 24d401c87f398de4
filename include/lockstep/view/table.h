// SPDX-License-Identifier: Apache-2.0
// Tables for people: aligned columns, printed row by row as results come, or whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/view/terminal.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// One column. Rows are printed one by one, so its width is fixed when the header is printed.
struct Column {
  std::string title;            ///< its heading
  int width = 0;                ///< the least width; the title's width if that is more
  Align align = Align::kRight;  ///< the side that its values are aligned to
  int leave_out = 0;  ///< in a table that is too wide, columns with the highest number are left out first; 0: never
};

/// A table that is printed row by row under a header. The texts have no trailing spaces and end with a line end.
/// Example: Table table({{"epoch", 9}, {"loss", 8}}); print(table.header()); print(table.row({"1/150", "0.1042"}));
class Table {
 public:
  /// `width` is the number of columns of the terminal; 0: no limit, nothing is left out.
  explicit Table(std::vector<Column> columns, int width = 0);

  /// Returns the titles and a rule below them.
  [[nodiscard]] std::string header() const;
  /// Returns one row. `cells` has one cell for every column, even for those that are left out.
  /// Throws: UsageError if the number of cells is not that of the columns.
  [[nodiscard]] std::string row(const std::vector<std::string>& cells) const;

 private:
  [[nodiscard]] int width() const;

  std::vector<Column> columns_;
  std::vector<bool> is_shown_;
};

/// Returns header and rows at once; each column is as wide as its widest cell.
[[nodiscard]] std::string render_table(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows);

/// One kind of mistake of a classifier.
struct Confusion {
  std::string truth;       ///< the right class
  std::string predicted;   ///< the model's answer
  std::int64_t count = 0;  ///< how often
};

/// Returns lines such as "predicted O for 0: 12 times", at most `limit`, the most frequent first; if there is none, a
/// line that says so.
[[nodiscard]] std::string render_confusions(std::vector<Confusion> confusions, std::size_t limit = 10);

}  // namespace lockstep::view

#pragma GCC visibility pop
