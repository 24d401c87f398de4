// SPDX-License-Identifier: Apache-2.0
// Writes a CheckpointDiff for people (columns, long values cut around the difference) and for programs (JSON).
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/diff.h"

namespace lockstep {
namespace {

using Row = std::vector<std::string>;

constexpr std::size_t kValueWidth = 48;  // two values of this width and a name fit into a wide terminal
constexpr std::size_t kBefore = 16;      // number of equal characters shown before the first difference

/// Returns a section of the text: a title, and its rows in columns.
std::string section(const std::string& title, const Row& header, const std::vector<Row>& rows, std::size_t limit) {
  if (rows.empty()) return "";
  const std::size_t shown = limit == 0 ? rows.size() : std::min(limit, rows.size());
  std::vector<Row> lines(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shown));
  if (!header.empty()) lines.insert(lines.begin(), header);
  std::vector<std::size_t> widths(lines.front().size());
  for (const Row& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text = fmt::format("\n{}: {}\n", title, rows.size());
  for (const Row& line : lines) {
    std::string cells;
    for (std::size_t i = 0; i < line.size(); ++i) cells += fmt::format("  {:<{}}", line[i], widths[i]);
    text += cells.substr(0, cells.find_last_not_of(' ') + 1) + "\n";
  }
  if (shown < rows.size()) text += fmt::format("  ... and {} more\n", rows.size() - shown);
  return text;
}

bool is_inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

/// Returns the part of a long value around `at`.
std::string excerpt(const std::string& value, std::size_t at) {
  if (value.size() <= kValueWidth) return value.empty() ? "-" : value;
  std::size_t begin = at <= kBefore ? 0 : at - kBefore;
  while (begin > 0 && is_inside_character(value, begin)) --begin;
  std::size_t end = std::min(begin + kValueWidth, value.size());
  while (end > begin && is_inside_character(value, end)) --end;
  return (begin > 0 ? "..." : "") + value.substr(begin, end - begin) + (end < value.size() ? "..." : "");
}

/// Returns a multi-line text as one line; canonical JSON is one line already.
std::string one_line(const std::string& value) {
  if (value.find('\n') == std::string::npos) return value;
  const std::string quoted = text::json_quote(value);
  return quoted.substr(1, quoted.size() - 2);
}

Row row_of(const ValueDifference& difference) {
  const std::string a = one_line(difference.a);
  const std::string b = one_line(difference.b);
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  return {difference.name, excerpt(a, static_cast<std::size_t>(at)), excerpt(b, static_cast<std::size_t>(at))};
}

Row row_of(const std::string& name) { return {name}; }

/// Returns the number as text. For a difference much larger than rounding errors, the order of magnitude is enough.
std::string ulps_text(const std::optional<std::uint64_t>& ulps) {
  if (!ulps) return "-";
  return *ulps < 100'000 ? fmt::format("{}", *ulps) : fmt::format("{:.1e}", static_cast<double>(*ulps));
}

Row row_of(const TensorDifference& tensor) {
  return {tensor.name,
          tensor.type,
          fmt::format("{} of {}", text::thousands(tensor.differing), text::thousands(tensor.elements)),
          fmt::format("{:.3g}", tensor.largest_absolute),
          fmt::format("{:.2g}", tensor.largest_relative),
          ulps_text(tensor.largest_ulps),
          tensor.non_finite > 0 ? text::thousands(tensor.non_finite) : "-"};
}

template <class Item>
std::vector<Row> rows_of(const std::vector<Item>& items) {
  std::vector<Row> rows;
  for (const Item& item : items) rows.push_back(row_of(item));
  return rows;
}

template <class Item, class ToJson>
std::string list(const std::vector<Item>& items, const ToJson& json_of) {
  std::vector<std::string> texts;
  for (const Item& item : items) texts.push_back(json_of(item));
  return "[" + text::join(texts) + "]";
}

std::string in_words(const ValueDifference& difference) {
  return fmt::format(R"({{"name": {}, "a": {}, "b": {}}})", text::json_quote(difference.name),
                     text::json_quote(difference.a), text::json_quote(difference.b));
}

/// Returns a difference as a JSON object; its `a` and `b` are JSON already.
std::string in_json(const ValueDifference& difference) {
  return fmt::format(R"({{"name": {}, "a": {}, "b": {}}})", text::json_quote(difference.name), difference.a,
                     difference.b);
}

std::string tensor_json(const TensorDifference& tensor) {
  return fmt::format(
      R"({{"name": {}, "type": "{}", "elements": {}, "differing": {}, "non_finite": {}, "largest_absolute": {}, )"
      R"("largest_relative": {}, "largest_ulps": {}}})",
      text::json_quote(tensor.name), tensor.type, tensor.elements, tensor.differing, tensor.non_finite,
      text::json_number(tensor.largest_absolute), text::json_number(tensor.largest_relative),
      tensor.largest_ulps ? fmt::format("{}", *tensor.largest_ulps) : "null");
}

}  // namespace

std::string to_text(const CheckpointDiff& diff, std::size_t limit) {
  std::string text = diff.equal() ? fmt::format("equal: digest {}\n", diff.digest_a)
                                  : fmt::format("differ: {} of {} entries\n", text::thousands(diff.differing()),
                                                text::thousands(diff.entries));
  text += fmt::format("a  {}\nb  {}\n", diff.path_a.string(), diff.path_b.string());
  const Row sides{"", "a", "b"};
  text += section("outside the state", sides, rows_of(diff.meta), limit);
  text += section("only in a", {}, rows_of(diff.only_in_a), limit);
  text += section("only in b", {}, rows_of(diff.only_in_b), limit);
  text += section("of a different type or shape", sides, rows_of(diff.types), limit);
  text += section("plain values", sides, rows_of(diff.values), limit);
  text += section("tensors, worst first", {"", "type", "differing", "largest", "relative", "ulps", "not finite"},
                  rows_of(diff.tensors), limit);
  return text;
}

std::string to_json(const CheckpointDiff& diff) {
  const auto path = [](const std::filesystem::path& value) { return text::json_quote(value.string()); };
  return fmt::format(
      R"({{"equal": {}, "path_a": {}, "path_b": {}, "digest_a": "{}", "digest_b": "{}", "entries": {}, "meta": {}, )"
      R"("only_in_a": {}, "only_in_b": {}, "types": {}, "values": {}, "tensors": {}}})"
      "\n",
      diff.equal(), path(diff.path_a), path(diff.path_b), diff.digest_a, diff.digest_b, diff.entries,
      list(diff.meta, in_words), list(diff.only_in_a, text::json_quote), list(diff.only_in_b, text::json_quote),
      list(diff.types, in_words), list(diff.values, in_json), list(diff.tensors, tensor_json));
}

}  // namespace lockstep
