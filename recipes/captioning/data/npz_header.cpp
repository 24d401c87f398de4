// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/npz.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "captioning/metrics/tokens.h"

namespace lockstep::captioning {
namespace {

constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};
constexpr std::size_t kNpyMostHeader = 1U << 16U;  // numpy's own limit is 10,000
constexpr std::size_t kNpyMostSides = 8;

/// A reader of the Python dictionary in numpy's headers.
class NpyWords {
 public:
  explicit NpyWords(std::string_view text) : rest_(text) {}

  /// If `mark` comes next, skips it and returns true.
  bool take(std::string_view mark) {
    skip_blanks();
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }

  /// Reads a quoted string without backslashes.
  std::optional<std::string_view> text() {
    skip_blanks();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    if (text.find('\\') != std::string_view::npos) return std::nullopt;
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::optional<std::int64_t> integer() {
    skip_blanks();
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (fault != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2
    return value;
  }

  [[nodiscard]] bool at_end() {
    skip_blanks();
    return rest_.empty();
  }
  /// The next characters, for messages.
  [[nodiscard]] std::string next() const {
    std::string shown;
    for (const char c : rest_.substr(0, 24)) shown += c >= ' ' && c <= '~' ? c : '?';
    return shown;
  }

 private:
  void skip_blanks() {
    const std::size_t start = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(start == std::string_view::npos ? rest_.size() : start);
  }

  std::string_view rest_;
};

std::string read_shape(NpyWords& words, std::vector<std::int64_t>& shape) {
  if (!words.take("(")) return fmt::format("'shape' is not a tuple: {}", words.next());
  shape.clear();
  while (!words.take(")")) {
    const auto side = words.integer();
    if (!side) return fmt::format("'shape' contains something other than numbers: {}", words.next());
    if (*side < 0) return fmt::format("'shape' has a dimension of {}", *side);
    if (shape.size() == kNpyMostSides) return fmt::format("'shape' has more than {} dimensions", kNpyMostSides);
    shape.push_back(*side);
    if (words.take(",")) continue;
    return words.take(")") ? "" : fmt::format("'shape' is not terminated: {}", words.next());
  }
  return "";
}

std::string read_entry(std::string_view key, NpyWords& words, NpyHeader& header) {
  if (key == "descr") {
    const auto text = words.text();
    if (!text) return fmt::format("'descr' is not a simple type: {}", words.next());
    header.descr = *text;
    return "";
  }
  if (key == "fortran_order") {
    header.fortran_order = words.take("True");
    return header.fortran_order || words.take("False") ? "" : "'fortran_order' is neither True nor False";
  }
  if (key == "shape") return read_shape(words, header.shape);
  return fmt::format("it has an unknown field '{}'", shown(key));
}

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (144, 1536), } to the end.
std::string read_dictionary(std::string_view text, NpyHeader& header) {
  NpyWords words(text);
  if (!words.take("{")) return fmt::format("its header is not a dictionary: {}", words.next());
  std::set<std::string_view> keys;
  while (!words.take("}")) {
    const auto key = words.text();
    if (!key || !words.take(":")) return fmt::format("expected a field in its header at: {}", words.next());
    if (!keys.insert(*key).second) return fmt::format("it has '{}' twice", shown(*key));
    if (std::string problem = read_entry(*key, words, header); !problem.empty()) return problem;
    if (words.take(",")) continue;
    if (words.take("}")) break;
    return fmt::format("its header is not terminated: {}", words.next());
  }
  for (const char* key : {"descr", "fortran_order", "shape"}) {
    if (!keys.contains(key)) return fmt::format("its header has no '{}'", key);
  }
  return words.at_end() ? "" : fmt::format("its header continues after its end: {}", words.next());
}

std::size_t little_number(std::string_view bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view bytes) {
  constexpr std::size_t kVersionAt = kNpyMagic.size();
  if (!bytes.starts_with(kNpyMagic) || bytes.size() < kVersionAt + 2)
    return Failure{"it does not begin like an .npy file"};
  const int version = static_cast<unsigned char>(bytes[kVersionAt]);
  if (version < 1 || version > 3) return Failure{fmt::format("its format version is {}; it must be 1 to 3", version)};
  const std::size_t length_size = version == 1 ? 2 : 4;
  const std::size_t start = kVersionAt + 2 + length_size;
  if (bytes.size() < start) return Failure{"it ends inside its header"};
  const std::size_t length = little_number(bytes.substr(kVersionAt + 2, length_size));
  if (length > kNpyMostHeader) return Failure{fmt::format("its header claims {} bytes", length)};
  if (length > bytes.size() - start) {
    return Failure{fmt::format("its header is truncated to {} of {} bytes", bytes.size() - start, length)};
  }
  NpyHeader header;
  header.size = start + length;
  if (std::string problem = read_dictionary(bytes.substr(start, length), header); !problem.empty()) {
    return Failure{std::move(problem)};
  }
  return header;
}

}  // namespace lockstep::captioning
