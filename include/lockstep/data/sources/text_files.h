// SPDX-License-Identifier: Apache-2.0
// Text files of a data set: lists, tables, annotations. They come in several encodings, and one function reads all
// lists of names. No torch header.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The most bytes of a file of annotations or a list: Objects365 has 3 GB of JSON.
inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{4} << 30U;

/// Returns `bytes` as UTF-8 without a byte order mark. Texts with the mark of UTF-16 or UTF-32 are converted. Fails for
/// bytes that are not text: the message names the line or the byte.
[[nodiscard]] Result<std::string> utf8_text(std::string_view bytes);

/// Returns the bytes of `encoding` as UTF-8. `encoding` is a name as in XML and HTML, so GB2312 includes the additions
/// of GBK and GB18030. Fails if the name is unknown, or a byte belongs to no letter.
[[nodiscard]] Result<std::string> converted_text(std::string_view bytes, const std::string& encoding);

/// Returns the text of a file, converted as by utf8_text().
/// Throws: DataError naming the file if it is missing, not UTF-8 or larger than kMostTextBytes; IoError.
[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/// Returns the lines of a list, one name each. Spaces inside a name belong to it; those around it, Windows line ends
/// and empty lines do not. Throws: the errors of read_text().
[[nodiscard]] std::vector<std::string> read_names(const std::filesystem::path& file);

/// Returns the names of one of VOC's lists for a class, whose lines all end with a column of -1, 0 or 1, without that
/// column. A line that names an existing file stays whole, unless that would list a name twice. Other lists are
/// returned unchanged.
[[nodiscard]] std::vector<std::string> without_flags(std::vector<std::string> names,
                                                     const std::function<bool(const std::string&)>& exists);

}  // namespace lockstep

#pragma GCC visibility pop
