// SPDX-License-Identifier: Apache-2.0
// Parses CSV (RFC 4180), and interprets the columns of a list of images.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "data/sources/annotations/list_parse.h"
#include "data/sources/files/numbers.h"

namespace lockstep::data {
namespace {

/// Reads one field; `at` ends at the character after the field: a comma, a line end, or the end.
class FieldReader {
 public:
  FieldReader(std::string_view text, std::size_t& at, std::int64_t& line) : text_(text), at_(at), line_(line) {}

  Result<std::string> read() { return at_ < text_.size() && text_[at_] == '"' ? quoted() : Result(plain()); }

 private:
  std::string plain() {
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string_view field = text_.substr(at_, end - at_);
    at_ = end;
    if ((end == text_.size() || text_[end] == '\n') && field.ends_with('\r')) field.remove_suffix(1);
    return std::string(field);
  }

  Result<std::string> quoted() {
    const std::int64_t first_line = line_;
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        field += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += text_[++at_];
      } else {
        ++at_;
        if (text_.substr(at_).starts_with("\r\n")) ++at_;
        if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') {
          return Failure{fmt::format("line {}: text after a closing quote", line_)};
        }
        return field;
      }
    }
    return Failure{fmt::format("line {}: a quote is never closed", first_line)};
  }

  std::string_view text_;
  std::size_t& at_;
  std::int64_t& line_;
};

/// True for words that mean a missing or invalid number in tables.
bool stands_for_nothing(std::string_view text) {
  std::string plain;
  for (const char letter : text) plain += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  if (plain.starts_with('-') || plain.starts_with('+')) plain.erase(0, 1);
  for (const std::string_view word : {"", "nan", "inf", "infinity", "null", "none", "na", "n/a", "<na>"}) {
    if (plain == word) return true;
  }
  return false;
}

/// A column, with blanks trimmed from its fields.
class Column {
 public:
  Column(const std::vector<CsvRow>& rows, std::size_t column) : rows_(rows), column_(column) {
    for (std::size_t row = 0; row < size(); ++row) {
      if (number_of(text(row))) {
        if (numbers_++ == 0) first_number_ = row;
        single_digits_ += text(row).size() == 1 ? 1 : 0;
      } else if (other_ == none() || (stands_for_nothing(text(other_)) && !stands_for_nothing(text(row)))) {
        other_ = row;
      }
    }
  }

  [[nodiscard]] std::size_t size() const { return rows_.size() - 1; }
  [[nodiscard]] std::string_view text(std::size_t row) const { return without_blanks(rows_[row + 1].fields[column_]); }
  [[nodiscard]] bool has_numbers() const { return numbers_ > 0; }
  [[nodiscard]] bool all_numbers() const { return numbers_ == size(); }
  /// True if all numbers are single digits, so that sorting them as text gives their numeric order.
  [[nodiscard]] bool only_digits() const { return single_digits_ == numbers_; }
  /// Returns the first field that is not a number: a word if there is one, otherwise a placeholder for a missing
  /// number.
  [[nodiscard]] std::size_t other() const { return other_; }
  [[nodiscard]] bool other_is_word() const { return other_ != none() && !stands_for_nothing(text(other_)); }

  [[nodiscard]] Failure fault(std::size_t row, const std::string& why) const {
    return {fmt::format("line {}: '{}' in the column '{}' {}", rows_[row + 1].line, text(row),
                        rows_.front().fields[column_], why)};
  }
  /// Reports a field that is not a number in a column of numbers.
  [[nodiscard]] Failure mixed() const {
    return fault(other_, fmt::format("is not a number, but others are, such as '{}' in line {}", text(first_number_),
                                     rows_[first_number_ + 1].line));
  }

 private:
  [[nodiscard]] static std::size_t none() { return static_cast<std::size_t>(-1); }

  const std::vector<CsvRow>& rows_;
  std::size_t column_;
  std::size_t numbers_ = 0;
  std::size_t single_digits_ = 0;
  std::size_t first_number_ = none();
  std::size_t other_ = none();
};

Result<bool> read_class_names(const Column& column, ParsedList& list) {
  std::map<std::string, std::int64_t, std::less<>> classes;
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (column.text(row).empty()) return column.fault(row, "is not a class");
    classes[std::string(column.text(row))] = 0;
  }
  for (auto& [name, label] : classes) {
    label = std::ssize(list.classes);
    list.classes.push_back(name);
  }
  for (std::size_t row = 0; row < column.size(); ++row)
    list.entries[row].label = classes.find(column.text(row))->second;
  return true;
}

/// Numbers are the classes themselves; names are numbered in sorted order. In a column with both, the numbers are names
/// if all are single digits, as in a set of characters.
Result<bool> read_label_column(const Column& column, ParsedList& list) {
  if (!column.all_numbers()) {
    const bool names = !column.has_numbers() || (column.only_digits() && column.other_is_word());
    return names ? read_class_names(column, list) : Result<bool>(column.mixed());
  }
  for (std::size_t row = 0; row < column.size(); ++row) {
    const std::optional<std::int64_t> label = whole_number_of(column.text(row));
    if (!label || *label < 0) return column.fault(row, "is not a class: classes are 0, 1, 2 ...");
    list.entries[row].label = *label;
  }
  return true;
}

Result<bool> read_value_column(const Column& column, ParsedList& list) {
  for (std::size_t row = 0; row < column.size(); ++row) {
    std::string_view text = column.text(row);
    if (text.starts_with('+')) text.remove_prefix(1);
    float value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec == std::errc::result_out_of_range) {  // too large or too small for a float; a double holds it
      const double number = *number_of(text);
      if (!fits_float(number)) return column.fault(row, "is too large for a float");
      value = static_cast<float>(number);
    }
    list.entries[row].values.push_back(value);
  }
  return true;
}

Result<bool> read_column(const std::vector<CsvRow>& rows, std::size_t index, ParsedList& list) {
  const std::string& name = rows.front().fields[index];
  const bool is_path = name == "path";
  if (!is_path && name != "caption") {
    const Column column(rows, index);
    if (name == "label") return read_label_column(column, list);
    if (column.all_numbers()) {
      list.value_names.push_back(name);
      return read_value_column(column, list);
    }
    if (column.has_numbers() && !column.other_is_word()) return column.mixed();
  }
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::string& text = rows[i].fields[index];
    if (is_path) {
      list.entries[i - 1].path = text;
    } else {
      list.entries[i - 1].captions.push_back(text);
    }
  }
  return true;
}

Result<bool> check_table(const std::vector<CsvRow>& rows) {
  if (rows.empty()) return Failure{"line 1: no header row"};
  const std::vector<std::string>& header = rows.front().fields;
  if (std::ranges::count(header, "path") != 1 || std::ranges::count(header, "label") > 1) {
    return Failure{
        fmt::format("line {}: the header row needs one column 'path' and at most one 'label'", rows.front().line)};
  }
  for (const CsvRow& row : rows) {
    if (row.fields.size() != header.size()) {
      return Failure{
          fmt::format("line {}: {} fields, but the header has {}", row.line, row.fields.size(), header.size())};
    }
    if (row.fields[static_cast<std::size_t>(std::ranges::find(header, "path") - header.begin())].empty()) {
      return Failure{fmt::format("line {}: the path is empty", row.line)};
    }
  }
  return true;
}

}  // namespace

Result<std::vector<CsvRow>> parse_csv(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<CsvRow> rows;
  std::int64_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n' || text.substr(at).starts_with("\r\n")) {
      at += text[at] == '\n' ? 1 : 2;
      ++line;
      continue;
    }
    CsvRow row{line, {}};
    for (bool more = true; more;) {
      Result<std::string> field = FieldReader(text, at, line).read();
      if (!field) return Failure{field.error()};
      row.fields.push_back(std::move(field).value());
      more = at < text.size() && text[at] == ',';
      if (at < text.size()) ++at;
    }
    ++line;
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<ParsedList> parse_csv_list(std::string_view text) {
  Result<std::vector<CsvRow>> rows = parse_csv(text);
  if (!rows) return Failure{rows.error()};
  if (!rows->empty()) {
    for (std::string& name : rows->front().fields) name = without_blanks(name);
  }
  if (const Result<bool> good = check_table(*rows); !good) return Failure{good.error()};
  ParsedList list;
  list.entries.resize(rows->size() - 1);
  for (std::size_t column = 0; column < rows->front().fields.size(); ++column) {
    if (const Result<bool> good = read_column(*rows, column, list); !good) return Failure{good.error()};
  }
  return list;
}

}  // namespace lockstep::data
