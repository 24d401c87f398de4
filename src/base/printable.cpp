// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/utf8.h"

namespace lockstep::text {
namespace {

constexpr std::string_view kHidden = "***";

bool is_control(char32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || (code >= 0x200E && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

void append_escaped(std::string& out, std::string_view bytes) {
  for (const char byte : bytes)
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
}

std::string escaped(std::string_view words, bool one_line) {
  std::string out;
  out.reserve(words.size());
  for (std::size_t at = 0; at < words.size();) {
    const Letter letter = letter_at(words, at);
    const std::string_view bytes = words.substr(at, std::max<std::size_t>(letter.bytes, 1));
    const bool is_layout = bytes == "\n" || bytes == "\t";
    if (is_layout && one_line) {
      out += bytes == "\n" ? "\\n" : "\\t";
    } else if (letter.bytes == 0 || (is_control(letter.code) && !is_layout)) {
      append_escaped(out, bytes);
    } else {
      out += bytes;
    }
    at += bytes.size();
  }
  return out;
}

bool is_scheme_character(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
}

/// Returns true if a scheme ends at `mark`, as in "x://", or in "https:/", a URL that was treated as a path.
bool is_mark(std::string_view words, std::size_t mark) {
  if (words.substr(mark).starts_with("://")) return is_scheme_character(words[mark - 1]);
  return words.substr(0, mark).ends_with("http") || words.substr(0, mark).ends_with("https");
}

/// Returns the end of the URL whose "://" ends at `at`: before a space, a quote, or the sentence's punctuation.
std::size_t url_end(std::string_view words, std::size_t at) {
  const auto stops = [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || std::string_view("'\"`<>|").find(c) != std::string_view::npos;
  };
  const auto found = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(at), words.end(), stops);
  auto end = static_cast<std::size_t>(found - words.begin());
  while (end > at && std::string_view(").,:;").find(words[end - 1]) != std::string_view::npos) --end;
  return end;
}

/// Returns the position after the '@' of user and password; 0 if there are none. It even finds a password with an
/// unescaped '/' or '?', which no URL may contain.
std::size_t end_of_user(std::string_view rest) {
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) return at + 1;
  const auto colon = authority.find(':');
  const bool is_port = colon == std::string_view::npos || authority.starts_with('[') ||
                       authority.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  const auto late = rest.rfind('@');
  return is_port || late == std::string_view::npos ? 0 : late + 1;
}

std::string without_values(std::string_view query) {
  std::string out;
  for (std::size_t begin = 0; begin <= query.size();) {
    const std::size_t end = std::min(query.find_first_of("&;", begin), query.size());
    const std::string_view entry = query.substr(begin, end - begin);
    const auto equals = entry.find('=');
    if (equals != std::string_view::npos) out += entry.substr(0, equals + 1);
    if (!entry.empty()) out += kHidden;
    if (end < query.size()) out += query[end];
    begin = end + 1;
  }
  return out;
}

/// Returns the URL without its secrets. `rest` is the text after "://".
std::string shown_url(std::string_view rest) {
  std::string out;
  if (const std::size_t user = end_of_user(rest); user > 0) {
    out += fmt::format("{}@", kHidden);
    rest.remove_prefix(user);
  }
  const auto hash = rest.find('#');
  const std::string_view address = rest.substr(0, hash);
  const auto question = address.find('?');
  out += address.substr(0, question);
  if (question != std::string_view::npos) out += "?" + without_values(address.substr(question + 1));
  if (hash == std::string_view::npos) return out;
  const std::string_view fragment = rest.substr(hash + 1);
  const bool is_public = fragment.empty() || fragment.starts_with("sha256=");
  return out + "#" + std::string(is_public ? fragment : kHidden);
}

}  // namespace

std::string printable(std::string_view words) { return escaped(words, false); }

std::string printable_line(std::string_view words) { return escaped(words, true); }

std::string without_secrets(std::string_view words) {
  std::string out;
  for (std::size_t at = 0; at < words.size();) {
    const auto mark = words.find(":/", at);
    const bool is_url = mark != std::string_view::npos && mark > at && is_mark(words, mark);
    const std::size_t rest =
        mark == std::string_view::npos ? words.size() : std::min(words.find_first_not_of('/', mark + 1), words.size());
    out += words.substr(at, rest - at);
    at = rest;
    if (!is_url) continue;
    const std::size_t end = url_end(words, rest);
    out += shown_url(words.substr(rest, end - rest));
    at = end;
  }
  return out;
}

std::string for_people(std::string_view words) { return printable(without_secrets(words)); }

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace lockstep::text
