// SPDX-License-Identifier: Apache-2.0
// CSV as RFC 4180 has it, and what its columns mean in a list of pictures.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "data/sources/annotations/list_parse.h"

namespace lockstep::data {
namespace {

/// Reads one field; `at` ends on what follows it: a comma, a line end, or the end.
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

std::optional<float> number_of(const std::string& text) {
  float value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> integer_of(const std::string& text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= 0;
  return whole ? std::optional(value) : std::nullopt;
}

template <class Fits>
bool all_of_column(const std::vector<CsvRow>& rows, std::size_t column, Fits fits) {
  return std::all_of(rows.begin() + 1, rows.end(), [&](const CsvRow& row) { return fits(row.fields[column]); });
}

void read_labels(const std::vector<CsvRow>& rows, std::size_t column, ParsedList& list) {
  const bool numbers = all_of_column(rows, column, [](const auto& text) { return integer_of(text).has_value(); });
  std::map<std::string, std::int64_t> classes;
  if (!numbers) {
    for (std::size_t i = 1; i < rows.size(); ++i) classes[rows[i].fields[column]] = 0;
    for (auto& [name, label] : classes) {
      label = std::ssize(list.classes);
      list.classes.push_back(name);
    }
  }
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::string& text = rows[i].fields[column];
    list.entries[i - 1].label = numbers ? *integer_of(text) : classes[text];
  }
}

void read_column(const std::vector<CsvRow>& rows, std::size_t column, ParsedList& list) {
  const std::string& name = rows.front().fields[column];
  if (name == "label") return read_labels(rows, column, list);
  const bool numbers =
      name != "caption" && all_of_column(rows, column, [](const auto& text) { return number_of(text).has_value(); });
  if (numbers) list.value_names.push_back(name);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::string& text = rows[i].fields[column];
    ListEntry& entry = list.entries[i - 1];
    if (name == "path") {
      entry.path = text;
    } else if (numbers) {
      entry.values.push_back(*number_of(text));
    } else {
      entry.captions.push_back(text);
    }
  }
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
          fmt::format("line {}: {} fields where the header has {}", row.line, row.fields.size(), header.size())};
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
  const Result<std::vector<CsvRow>> rows = parse_csv(text);
  if (!rows) return Failure{rows.error()};
  if (const Result<bool> good = check_table(*rows); !good) return Failure{good.error()};
  ParsedList list;
  list.entries.resize(rows->size() - 1);
  for (std::size_t column = 0; column < rows->front().fields.size(); ++column) read_column(*rows, column, list);
  return list;
}

}  // namespace lockstep::data
