// SPDX-License-Identifier: Apache-2.0
// Texts that people and tools leave beside a data set: lists, tables, annotations. They come in several encodings, and
// lists of names have one reader. No torch header.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The most bytes that a file of annotations or a list may have: Objects365 has 3 GB of JSON.
inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{4} << 30U;

/// Returns `bytes` as UTF-8 without a byte order mark. Texts with the mark of UTF-16 or UTF-32 are converted.
/// Fails for what is no text: the message names the line or the byte.
[[nodiscard]] Result<std::string> utf8_text(std::string_view bytes);

/// Returns the bytes of `encoding` as UTF-8. Names of encodings are those of XML's declarations and HTML's, so that
/// GB2312 includes what GBK and GB18030 add to it. Fails where the name is unknown, or a byte belongs to no letter.
[[nodiscard]] Result<std::string> converted_text(std::string_view bytes, const std::string& encoding);

/// Returns the text of a file, converted as by utf8_text().
/// Throws: DataError naming the file if it is missing, not UTF-8 or larger than kMostTextBytes; IoError.
[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/// Returns the lines of a list, one name each. Spaces inside of a name belong to it; those around it, line ends of
/// Windows and empty lines do not. Throws: as read_text().
[[nodiscard]] std::vector<std::string> read_names(const std::filesystem::path& file);

/// Returns the names of one of VOC's lists for a class, whose lines all end with a column of -1, 0 or 1, without that
/// column. A line that names an existing file stays whole, unless that would list a name twice. Other lists are
/// returned unchanged.
[[nodiscard]] std::vector<std::string> without_flags(std::vector<std::string> names,
                                                     const std::function<bool(const std::string&)>& exists);

}  // namespace lockstep

#pragma GCC visibility pop
