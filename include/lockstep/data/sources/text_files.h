// SPDX-License-Identifier: Apache-2.0
// Reads the text files of a data set, in several encodings: lists, tables, annotations. No torch header.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The maximum size of an annotation file or a list, in bytes: Objects365 has 3 GB of JSON.
inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{4} << 30U;

/// Returns `bytes` as UTF-8 without a byte order mark. Text with a UTF-16 or UTF-32 mark is converted. Fails for bytes
/// that are not text: the message names the line or the byte.
[[nodiscard]] Result<std::string> utf8_text(std::string_view bytes);

/// Returns the bytes of `encoding` as UTF-8. `encoding` is named as in XML and HTML, so GB2312 includes the additions
/// of GBK and GB18030. Fails if the name is unknown, or a byte does not belong to a character.
[[nodiscard]] Result<std::string> converted_text(std::string_view bytes, const std::string& encoding);

/// Returns the text of a file, converted by utf8_text().
/// Throws: DataError naming the file if it is missing, not UTF-8 or larger than kMostTextBytes; IoError.
[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/// Returns the lines of a list, one name each. Spaces inside a name belong to it; those around it, Windows line endings
/// and empty lines do not. Throws: anything read_text() throws.
[[nodiscard]] std::vector<std::string> read_names(const std::filesystem::path& file);

/// Returns `names` without their last column if it is -1, 0 or 1 in every line, as in VOC's lists for one class. A line
/// that names an existing file is left intact, unless that would list a name twice. Other lists are unchanged.
[[nodiscard]] std::vector<std::string> without_flags(std::vector<std::string> names,
                                                     const std::function<bool(const std::string&)>& exists);

}  // namespace lockstep

#pragma GCC visibility pop
