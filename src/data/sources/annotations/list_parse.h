// SPDX-License-Identifier: Apache-2.0
// Lists of images, from untrusted text. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

inline constexpr std::int64_t kMaxListLabel = 1 << 20;  // a larger label in `labels` is probably a mistake

/// One entry of a list. Labels are numbers; ParsedList::classes has the names if the list has names.
struct ListEntry {
  std::string path;
  std::optional<std::int64_t> label;
  std::vector<std::int64_t> labels;  ///< labels of the whole image, 0 .. ParsedList::label_count - 1
  std::vector<float> values;
  std::vector<std::string> captions;
  std::vector<Object> objects;
};

struct ParsedList {
  std::vector<ListEntry> entries;
  std::vector<std::string> classes;
  std::vector<std::string> value_names;
  std::int64_t label_count = 0;  ///< 0: no entry has `labels`
};

/// One record of a CSV file, and the line on which it begins.
struct CsvRow {
  std::int64_t line = 0;
  std::vector<std::string> fields;
};

/// Parses RFC 4180. Bare line feeds, a missing last line end and a byte order mark are accepted. Skips empty lines.
[[nodiscard]] Result<std::vector<CsvRow>> parse_csv(std::string_view text);

/// Parses a list with a header row.
[[nodiscard]] Result<ParsedList> parse_csv_list(std::string_view text);

/// Parses an array of objects, or one object per line.
[[nodiscard]] Result<ParsedList> parse_json_list(std::string_view text);

}  // namespace lockstep::data
