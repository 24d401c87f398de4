// SPDX-License-Identifier: Apache-2.0
// Lists of pictures, from foreign text. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

inline constexpr std::int64_t kMaxListLabel = 1 << 20;  // a larger one of several labels is taken for a mistake

/// What one entry of a list says. Labels are numbers; where they were names, ParsedList::classes has them.
struct ListEntry {
  std::string path;
  std::optional<std::int64_t> label;
  std::vector<std::int64_t> labels;  ///< labels of the whole picture, 0 .. ParsedList::label_count - 1
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

/// One record of a CSV file and the line that it begins at.
struct CsvRow {
  std::int64_t line = 0;
  std::vector<std::string> fields;
};

/// RFC 4180; also with bare line feeds, without the last line end, with a byte order mark. Empty lines are skipped.
[[nodiscard]] Result<std::vector<CsvRow>> parse_csv(std::string_view text);

/// A list with a header row.
[[nodiscard]] Result<ParsedList> parse_csv_list(std::string_view text);

/// An array of objects, or an object a line.
[[nodiscard]] Result<ParsedList> parse_json_list(std::string_view text);

}  // namespace lockstep::data
