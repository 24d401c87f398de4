// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/printable.h"

namespace lockstep::view {
namespace {

constexpr std::string_view kColumnGap = "  ";

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

Table::Table(std::vector<Column> columns, int width) : columns_(std::move(columns)), is_shown_(columns_.size(), true) {
  for (Column& column : columns_) column.width = std::max(column.width, display_width(column.title));
  while (width > 0 && this->width() > width) {
    std::size_t least = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const int now = is_shown_[least] ? columns_[least].leave_out : 0;
      if (is_shown_[i] && columns_[i].leave_out > now) least = i;
    }
    if (!is_shown_[least] || columns_[least].leave_out == 0) break;
    is_shown_[least] = false;
  }
}

int Table::width() const {
  int sum = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (is_shown_[i]) sum += columns_[i].width + (sum > 0 ? static_cast<int>(kColumnGap.size()) : 0);
  }
  return sum;
}

std::string Table::header() const {
  std::vector<std::string> titles;
  std::string rule;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    if (!is_shown_[i]) continue;
    if (!rule.empty()) rule += kColumnGap;
    rule += std::string(static_cast<std::size_t>(columns_[i].width), '-');
  }
  return row(titles) + rule + "\n";
}

std::string Table::row(const std::vector<std::string>& cells) const {
  if (cells.size() != columns_.size()) {
    throw UsageError(fmt::format("a row has {} cells, but the table has {} columns", cells.size(), columns_.size()));
  }
  std::string line;
  bool is_first = true;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!is_shown_[i]) continue;
    if (!is_first) line += kColumnGap;
    line += pad(text::printable_line(cells[i]), columns_[i].width, columns_[i].align);
    is_first = false;
  }
  return without_trailing_spaces(std::move(line)) + "\n";
}

std::string render_table(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows) {
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < std::min(row.size(), columns.size()); ++i) {
      columns[i].width = std::max(columns[i].width, display_width(text::printable_line(row[i])));
    }
  }
  const Table table(std::move(columns));
  std::string text = table.header();
  for (const auto& row : rows) text += table.row(row);
  return text;
}

std::string render_confusions(std::vector<Confusion> confusions, std::size_t limit) {
  std::erase_if(confusions, [](const Confusion& confusion) { return confusion.count <= 0; });
  if (confusions.empty()) return "no confusions\n";
  std::sort(confusions.begin(), confusions.end(), [](const Confusion& a, const Confusion& b) {
    return std::tie(b.count, a.truth, a.predicted) < std::tie(a.count, b.truth, b.predicted);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(limit, confusions.size()); ++i) {
    const Confusion& confusion = confusions[i];
    text += fmt::format("predicted {} for {}: {} {}\n", confusion.predicted, confusion.truth, confusion.count,
                        confusion.count == 1 ? "time" : "times");
  }
  if (confusions.size() > limit) text += fmt::format("and {} more kinds\n", confusions.size() - limit);
  return text;
}

}  // namespace lockstep::view
