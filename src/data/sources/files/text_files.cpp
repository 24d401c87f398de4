// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sources/text_files.h"

#include <fmt/format.h>
#include <iconv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "data/sources/files/utf8_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace data {
namespace {

/// Returns the number of bytes in the first character of `text`; 0 if it is invalid. Overlong forms, surrogates and
/// codes above U+10FFFF are invalid.
std::size_t letter_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned second = byte(1);
  const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
}

}  // namespace

std::optional<std::size_t> first_no_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = letter_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace data

namespace {

namespace fs = std::filesystem;

using Pair = std::pair<std::string_view, const char*>;

// A longer mark comes before the mark that it begins with.
constexpr std::array<Pair, 5> kMarks{{{std::string_view("\xff\xfe\0\0", 4), "UTF-32LE"},
                                      {std::string_view("\0\0\xfe\xff", 4), "UTF-32BE"},
                                      {"\xef\xbb\xbf", "UTF-8"},
                                      {"\xff\xfe", "UTF-16LE"},
                                      {"\xfe\xff", "UTF-16BE"}}};

// Only these encodings reach iconv, under iconv's names: an untrusted file cannot load an arbitrary system converter.
// Files declared as GB2312 contain GBK characters, and files declared as Shift_JIS contain Microsoft's.
constexpr std::array<Pair, 21> kEncodings{{{"gb2312", "GB18030"},   {"gbk", "GB18030"},       {"cp936", "GB18030"},
                                           {"gb18030", "GB18030"},  {"big5", "BIG5"},         {"cp950", "CP950"},
                                           {"shiftjis", "CP932"},   {"sjis", "CP932"},        {"cp932", "CP932"},
                                           {"windows31j", "CP932"}, {"eucjp", "EUC-JP"},      {"euckr", "CP949"},
                                           {"cp949", "CP949"},      {"ksc56011987", "CP949"}, {"koi8r", "KOI8-R"},
                                           {"koi8u", "KOI8-U"},     {"latin1", "ISO-8859-1"}, {"utf16", "UTF-16"},
                                           {"utf16le", "UTF-16LE"}, {"utf16be", "UTF-16BE"},  {"tis620", "TIS-620"}}};

/// Returns the name in lower case, without punctuation: "shiftjis" for "Shift_JIS".
std::string plain_name(std::string_view encoding) {
  std::string plain;
  for (const char letter : encoding) {
    if (letter == '-' || letter == '_' || letter == ' ') continue;
    plain += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  }
  return plain;
}

/// Returns iconv's name for "iso88592", "windows1252" and the like; "" for other names.
std::string numbered_encoding(const std::string& plain) {
  for (const auto& [begin, name] :
       {Pair{"iso8859", "ISO-8859-"}, Pair{"windows125", "CP125"}, Pair{"cp125", "CP125"}}) {
    if (!plain.starts_with(begin)) continue;
    const std::string number = plain.substr(begin.size());
    const bool good = !number.empty() && number.size() <= 2 && number.find_first_not_of("0123456789") == number.npos;
    if (good) return name + number;
  }
  return "";
}

std::string iconv_name(std::string_view encoding) {
  const std::string plain = plain_name(encoding);
  for (const auto& [known, name] : kEncodings) {
    if (plain == known) return name;
  }
  return numbered_encoding(plain);
}

/// An open converter to UTF-8.
class Converter {
 public:
  explicit Converter(const std::string& from) : handle_(::iconv_open("UTF-8", from.c_str())) {}
  ~Converter() {
    if (is_open()) ::iconv_close(handle_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return handle_ != reinterpret_cast<iconv_t>(-1); }

  /// Returns the number of bytes that were converted: all of them, unless one does not belong to a character.
  std::size_t run(std::string_view bytes, std::string& to) {
    std::string input(bytes);  // iconv's parameter is not const
    char* from = input.data();
    std::size_t left = input.size();
    std::array<char, 4096> block{};
    while (left > 0) {
      char* out = block.data();
      std::size_t room = block.size();
      const std::size_t result = ::iconv(handle_, &from, &left, &out, &room);
      to.append(block.data(), block.size() - room);
      if (result == static_cast<std::size_t>(-1) && errno != E2BIG) break;
    }
    return bytes.size() - left;
  }

 private:
  iconv_t handle_;
};

Result<std::string> run_iconv(std::string_view bytes, const std::string& encoding) {
  Converter converter(encoding);
  if (!converter.is_open()) return Failure{fmt::format("this system's iconv cannot convert {}", encoding)};
  std::string text;
  const std::size_t done = converter.run(bytes, text);
  if (done < bytes.size()) return Failure{fmt::format("byte {} is not part of a valid {} character", done, encoding)};
  return text;
}

/// True if the text begins like ASCII in 16 bits per character.
bool is_wide(std::string_view bytes) { return bytes.size() > 1 && (bytes[0] == '\0') != (bytes[1] == '\0'); }

/// True for UTF-8 without a byte order mark.
bool is_plain(std::string_view bytes) {
  const auto marks = [&](const Pair& mark) { return bytes.starts_with(mark.first); };
  return std::ranges::none_of(kMarks, marks) && !is_wide(bytes) && !data::first_no_utf8(bytes);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

/// Returns the name before a column of -1, 0 or 1; "" if the line has none.
std::string before_flag(std::string_view line) {
  const std::size_t blank = line.find_last_of(" \t");
  if (blank == line.npos) return "";
  const std::string_view flag = line.substr(blank + 1);
  if (flag != "-1" && flag != "0" && flag != "1") return "";
  return std::string(trimmed(line.substr(0, blank)));
}

bool has_repeats(std::vector<std::string> names) {
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

}  // namespace

Result<std::string> utf8_text(std::string_view bytes) {
  if (is_plain(bytes)) return std::string(bytes);
  for (const auto& [mark, encoding] : kMarks) {
    if (!bytes.starts_with(mark)) continue;
    bytes.remove_prefix(mark.size());
    if (encoding != std::string_view("UTF-8")) return run_iconv(bytes, encoding);
    break;
  }
  if (const auto bad = data::first_no_utf8(bytes)) {
    const auto line = 1 + std::ranges::count(bytes.substr(0, *bad), '\n');
    return Failure{fmt::format("line {} is not UTF-8", line)};
  }
  if (is_wide(bytes)) return Failure{"it looks like UTF-16 without a byte order mark"};
  return std::string(bytes);
}

Result<std::string> converted_text(std::string_view bytes, const std::string& encoding) {
  const std::string name = iconv_name(encoding);
  if (name.empty()) return Failure{fmt::format("the encoding '{}' is not supported", encoding)};
  return run_iconv(bytes, name);
}

std::string read_text(const fs::path& file) {
  std::string bytes = FileSystem::system().read(file, kMostTextBytes);
  if (is_plain(bytes)) return bytes;  // avoids a second copy, which matters for gigabytes of COCO
  Result<std::string> text = utf8_text(bytes);
  if (text) return std::move(text).value();
  throw DataError(fmt::format("cannot read {}: {}", file.string(), text.error()),
                  "convert the file, for example with iconv -f latin1 -t utf8 (-f gb18030 for Chinese text)");
}

std::vector<std::string> read_names(const fs::path& file) {
  const std::string text = read_text(file);
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view name = trimmed(std::string_view(text).substr(at, end - at));
    if (!name.empty()) names.emplace_back(name);
    at = end + 1;
  }
  return names;
}

std::vector<std::string> without_flags(std::vector<std::string> names,
                                       const std::function<bool(const std::string&)>& exists) {
  std::vector<std::string> plain;
  plain.reserve(names.size());
  for (const std::string& name : names) {
    plain.push_back(before_flag(name));
    if (plain.back().empty()) return names;
  }
  std::vector<std::string> chosen;
  chosen.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) chosen.push_back(exists(names[i]) ? names[i] : plain[i]);
  return has_repeats(chosen) && !has_repeats(plain) ? plain : chosen;
}

}  // namespace lockstep
