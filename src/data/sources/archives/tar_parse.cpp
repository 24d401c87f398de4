// SPDX-License-Identifier: Apache-2.0
#include "data/sources/archives/tar_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lockstep::data {
namespace {

constexpr std::size_t kNameBytes = 100;

std::string_view field(std::string_view block, std::size_t at, std::size_t size) {
  const std::string_view whole = block.substr(at, size);
  return whole.substr(0, std::min(whole.find('\0'), size));
}

// Parses octal digits between spaces or, if the highest bit is set, a big-endian binary number.
Result<std::uint64_t> number(std::string_view block, std::size_t at, std::size_t size) {
  const std::string_view raw = block.substr(at, size);
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(raw.front()) & 0x80U) != 0) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (value >> 55U != 0) return Failure{"a number too large for a tar file"};
      value = value << 8U | (static_cast<unsigned char>(raw[i]) & (i == 0 ? 0x7FU : 0xFFU));
    }
    return value;
  }
  std::string_view digits = field(block, at, size);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return value;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return Failure{"a number that is not octal"};
  return value;
}

// Checks the header's checksum: the sum of all bytes, with spaces in the checksum's field. Some programs sum signed
// bytes.
bool sum_fits(std::string_view block, std::uint64_t stated) {
  std::uint64_t bytes = 0;
  std::int64_t chars = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const char letter = i >= 148 && i < 156 ? ' ' : block[i];
    bytes += static_cast<unsigned char>(letter);
    chars += static_cast<signed char>(letter);
  }
  return bytes == stated || chars == static_cast<std::int64_t>(stated);
}

/// One record of a pax header: "27 path=some/long/name\n"; `length` counts all of it.
struct PaxRecord {
  std::string_view key;
  std::string_view value;
  std::size_t length = 0;
};

Result<PaxRecord> pax_record(std::string_view text) {
  std::size_t length = 0;
  const std::size_t space = std::min(text.find(' '), text.size());
  const auto read = std::from_chars(text.data(), text.data() + space, length);
  const bool counted = read.ec == std::errc() && read.ptr == text.data() + space && space < text.size();
  if (!counted || length > text.size() || length < space + 3 || text[length - 1] != '\n') {
    return Failure{"a pax record of the wrong length"};
  }
  const std::string_view record = text.substr(space + 1, length - space - 2);
  const std::size_t equals = record.find('=');
  if (equals == std::string_view::npos) return Failure{"a pax record without '='"};
  return PaxRecord{record.substr(0, equals), record.substr(equals + 1), length};
}

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

std::string add_part(TarIndex& index, const std::string& name, std::uint64_t offset, std::uint64_t size) {
  TarName split = split_tar_name(name);
  if (split.extension.empty()) return "";
  if (index.samples.empty() || index.samples.back().key != split.key) index.samples.push_back({split.key, {}});
  TarSample& sample = index.samples.back();
  for (const TarPart& part : sample.parts) {
    if (part.extension == split.extension)
      return fmt::format("sample '{}' has two files '.{}'", split.key, split.extension);
  }
  sample.parts.push_back({std::move(split.extension), offset, size});
  return "";
}

}  // namespace

Result<TarScanner::Step> TarScanner::block(std::string_view block) {
  if (all_zero(block)) return Step{What::kEnd};
  const Result<std::uint64_t> sum = number(block, 148, 8);
  if (!sum || !sum_fits(block, *sum)) return Failure{"not a tar header: its checksum is wrong"};
  const Result<std::uint64_t> stated = number(block, 124, 12);
  if (!stated) return Failure{stated.error()};
  const char type = block[156];
  if (type == 'x' || type == 'L') {
    if (*stated > kMaxTarText) return Failure{fmt::format("a name of {} bytes", *stated)};
    text_type_ = type;
    return Step{What::kText, *stated};
  }
  if (type == 'g' || type == 'K') return Step{What::kSkip, *stated};
  if (type == 'S') return Failure{"a sparse file, which is not supported"};
  std::string name(field(block, 0, kNameBytes));
  const std::string_view prefix = field(block, 345, 155);
  if (block.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
    name = std::string(prefix) + "/" + name;
  if (!long_name_.empty()) name = std::exchange(long_name_, {});
  const std::uint64_t size = long_size_ >= 0 ? static_cast<std::uint64_t>(std::exchange(long_size_, -1)) : *stated;
  long_size_ = -1;
  // A link's size has no meaning: no content follows it.
  if (type >= '1' && type <= '6') return Step{What::kSkip, 0};
  const bool file = (type == '0' || type == '\0' || type == '7') && !name.ends_with('/');
  return Step{file ? What::kFile : What::kSkip, size, std::move(name)};
}

Result<bool> TarScanner::text(std::string_view content) {
  if (text_type_ == 'L') {
    long_name_ = std::string(content.substr(0, std::min(content.find('\0'), content.size())));
    return true;
  }
  while (!content.empty()) {
    const Result<PaxRecord> record = pax_record(content);
    if (!record) return Failure{record.error()};
    if (record->key == "path") long_name_ = std::string(record->value);
    if (record->key.starts_with("GNU.sparse.")) return Failure{"a sparse file, which is not supported"};
    if (record->key == "size") {
      const char* end = record->value.data() + record->value.size();
      const auto read = std::from_chars(record->value.data(), end, long_size_);
      if (read.ec != std::errc() || read.ptr != end || long_size_ < 0)
        return Failure{"a pax size that is not a number"};
    }
    content.remove_prefix(record->length);
  }
  return true;
}

std::vector<std::string> tar_class_names(std::string_view content) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    all.emplace_back(content.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

TarName split_tar_name(const std::string& name) {
  std::string_view rest = name;
  while (rest.starts_with("./")) rest.remove_prefix(2);
  const std::size_t slash = rest.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = rest.find('.', base);
  const bool meta = rest.substr(base).starts_with("__") && rest.ends_with("__");
  if (dot == std::string_view::npos || dot == base || meta) return {};
  TarName split{std::string(rest.substr(0, dot)), std::string(rest.substr(dot + 1))};
  for (char& letter : split.extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return split;
}

Result<TarIndex> parse_tar(std::string_view file) {
  TarScanner scanner;
  TarIndex index;
  std::uint64_t at = 0;
  const auto fail = [&](const std::string& why) { return Failure{fmt::format("byte {}: {}", at, why)}; };
  for (;;) {
    if (file.size() - at < kTarBlock) return fail(file.empty() ? "empty file" : "cut short: no end of the archive");
    Result<TarScanner::Step> step = scanner.block(file.substr(at, kTarBlock));
    if (!step) return fail(step.error());
    const std::uint64_t begin = at + kTarBlock;
    if (step->what == TarScanner::What::kEnd) {
      const std::string_view rest = file.substr(at);
      const auto other = std::find_if(rest.begin(), rest.end(), [](char byte) { return byte != 0; });
      at += static_cast<std::uint64_t>(other - rest.begin());
      if (other != rest.end()) return fail("more data after the end of the archive: several archives in one file?");
      return index;
    }
    if (step->size > file.size() - begin)
      return fail(fmt::format("cut short: '{}' has {} bytes", step->name, step->size));
    const std::string_view content = file.substr(begin, step->size);
    if (step->what == TarScanner::What::kText) {
      if (const Result<bool> good = scanner.text(content); !good) return fail(good.error());
    }
    if (step->what == TarScanner::What::kFile) {
      if (step->name == kTarClassNames) index.classes = tar_class_names(content);
      if (step->size > kMaxTarFile)
        return fail(fmt::format("'{}' has {} bytes, more than 1 GiB", step->name, step->size));
      if (const std::string why = add_part(index, step->name, begin, step->size); !why.empty()) return fail(why);
    }
    at = begin + std::min(tar_padded(step->size), file.size() - begin);
  }
}

std::string tar_member(const std::string& name, std::string_view content) {
  std::string block(kTarBlock, '\0');
  const auto put = [&](std::ptrdiff_t at, std::string_view text) { std::ranges::copy(text, block.begin() + at); };
  put(0, std::string_view(name).substr(0, kNameBytes));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char letter : block) sum += static_cast<unsigned char>(letter);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  std::string member;
  member.reserve(kTarBlock + tar_padded(content.size()));
  member.append(block).append(content);
  member.resize(kTarBlock + tar_padded(content.size()), '\0');
  return member;
}

}  // namespace lockstep::data
