// SPDX-License-Identifier: Apache-2.0
#include "launch/output/line_mux.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::launch {
namespace {

// Longer lines are shown in pieces, so that they do not fill up memory.
constexpr std::size_t kLongestPartial = 64U << 10U;
constexpr std::string_view kClearLine = "\r\033[K";

// Truncates text to the terminal's width: longer text would wrap, and only its last row could be cleared.
std::string fit(std::string text, std::size_t width) {
  if (width == 0 || text.find('\033') != std::string::npos) return text;
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool starts_character = (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
    if (starts_character && ++columns > width) return text.substr(0, at);
  }
  return text;
}

// Keeps only the visible piece of a progress bar; the log has them all. A carriage return at its end means that the
// next piece overwrites it.
void keep_last_piece(std::string& partial) {
  const bool is_overwritten_next = !partial.empty() && partial.back() == '\r';
  std::string kept(1, '\r');
  kept += last_piece(partial);
  if (is_overwritten_next) kept += '\r';
  partial = std::move(kept);
}

}  // namespace

std::string_view last_piece(std::string_view line) {
  const auto end = line.find_last_not_of('\r');
  if (end == std::string_view::npos) return {};
  line = line.substr(0, end + 1);
  const auto start = line.rfind('\r');
  return start == std::string_view::npos ? line : line.substr(start + 1);
}

std::string without_colours(std::string_view line) {
  if (line.find('\033') == std::string_view::npos) return std::string(line);
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const auto end = line.substr(at).starts_with("\033[") ? line.find_first_not_of("0123456789;", at + 2) : line.npos;
    if (end != line.npos && (line[end] == 'm' || line[end] == 'K')) {
      at = end;
    } else {
      plain += line[at];
    }
  }
  return plain;
}

std::string LineMux::make_prefix(int rank) const {
  if (options_.style == ConsoleStyle::kMainRaw && rank == 0) return "";
  return options_.prefix_of ? options_.prefix_of(rank) : fmt::format("[{}]: ", rank);
}

const std::string& LineMux::prefix(int rank) {
  const auto found = prefixes_.find(rank);
  return found != prefixes_.end() ? found->second : prefixes_.emplace(rank, make_prefix(rank)).first->second;
}

bool LineMux::is_shown(const Source& source) const {
  return options_.style == ConsoleStyle::kPrefix || source.first == 0 || source.second == 1;
}

// Returns true for a line of an error that need not be shown again. An error that all ranks report, or that one reports
// and the others refer to, is shown once: the agent reports the first failure at the end, and the logs have all errors.
// Rank 0's own errors are shown if they are the errors of all ranks.
bool LineMux::is_repeated_error(const Source& source, std::string_view line) {
  if (options_.style == ConsoleStyle::kMainRaw && source.first == 0) return false;
  // For nearly every line, the first letter already rules out an error.
  if (in_error_.empty() && !line.starts_with('e') && !line.starts_with('\033')) return false;
  const std::string plain = without_colours(line);
  const bool is_hidden = plain.starts_with("error: ") && !is_new_error(source.first, plain);
  const bool goes_on = in_error_.count(source) != 0 && plain.starts_with("  ");
  if (is_hidden) in_error_.insert(source);
  if (!is_hidden && !goes_on) in_error_.erase(source);
  return is_hidden || goes_on;
}

// Returns true if the error was not printed for another rank. A line that one rank prints twice is shown twice.
bool LineMux::is_new_error(int rank, std::string_view line) {
  if (options_.style == ConsoleStyle::kMainRaw) return false;
  constexpr std::size_t kMany = 1000;
  if (shown_errors_.size() >= kMany) shown_errors_.clear();
  return shown_errors_.emplace(line, rank).first->second == rank;
}

void LineMux::feed(int rank, int stream, std::string_view bytes) {
  const Source source{rank, stream};
  if (!is_shown(source)) return;
  last_fed_ = source;
  if (options_.style == ConsoleStyle::kMainRaw && rank == 0 && options_.is_terminal[stream]) {
    feed_raw(stream, bytes);
  } else {
    feed_lines(source, bytes);
  }
  flush(stream);
}

void LineMux::feed_lines(const Source& source, std::string_view bytes) {
  std::string& partial = partial_[source];
  // Whole lines are taken from `bytes`; only the first line may have started earlier.
  if (const auto end = bytes.find('\n'); !partial.empty() && end != std::string_view::npos) {
    partial += bytes.substr(0, end);
    emit_line(source, last_piece(partial));
    partial.clear();
    bytes.remove_prefix(end + 1);
  }
  if (partial.empty()) {
    for (std::size_t end = 0; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
      emit_line(source, last_piece(bytes.substr(0, end)));
    }
  }
  partial += bytes;
  if (partial.size() > kLongestPartial) {
    emit_line(source, last_piece(partial));
    partial.clear();
  }
  const bool is_bar = partial.find('\r') != std::string::npos;
  if (is_bar && source.first == 0 && options_.is_terminal[source.second])
    show_live(source, std::string(last_piece(partial)));
  if (is_bar) keep_last_piece(partial);
}

void LineMux::flush(int stream) {
  if (!shown_.empty()) sink_(stream, shown_);
  shown_.clear();
}

void LineMux::feed_raw(int stream, std::string_view bytes) {
  shown_ += bytes;
  std::string& partial = partial_[{0, stream}];
  partial += bytes;
  if (const auto newline = partial.rfind('\n'); newline != std::string::npos) partial.erase(0, newline + 1);
  keep_last_piece(partial);
  const std::string_view shown = last_piece(partial);
  live_ = shown.empty() ? Live{} : Live{{0, stream}, std::string(shown)};
}

void LineMux::finish(int rank, int stream) {
  const Source source{rank, stream};
  const auto found = partial_.find(source);
  if (found == partial_.end()) return;
  const std::string rest(last_piece(found->second));
  partial_.erase(found);
  if (!rest.empty()) emit_line(source, rest);
  flush(stream);
}

void LineMux::emit_line(const Source& source, std::string_view line) {
  if (is_repeated_error(source, line)) return;
  const bool is_over_live = !live_.text.empty() && options_.is_terminal[source.second];
  if (is_over_live) shown_ += kClearLine;
  if (live_.source == source) live_ = {};
  shown_ += prefix(source.first);
  shown_ += line;
  shown_ += '\n';
  if (is_over_live) shown_ += live_.text;
}

void LineMux::show_live(const Source& source, std::string text) {
  text = fit(std::move(text), options_.width);
  if (live_.source == source && live_.text == text) return;
  shown_ += kClearLine;
  shown_ += text;
  live_ = {source, std::move(text)};
}

bool LineMux::wants_idle() const {
  const auto found = partial_.find(last_fed_);
  return live_.text.empty() && found != partial_.end() && !found->second.empty() &&
         options_.is_terminal[last_fed_.second];
}

void LineMux::idle() {
  if (wants_idle()) show_live(last_fed_, prefix(last_fed_.first) + std::string(last_piece(partial_[last_fed_])));
  flush(last_fed_.second);
}

}  // namespace lockstep::launch
