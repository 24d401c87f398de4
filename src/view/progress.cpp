// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 6;
constexpr std::string_view kPartGap = "  ";

std::string rate_text(double rate) {
  if (!std::isfinite(rate)) return "-";
  return rate >= 1000 ? text::thousands(std::llround(rate)) : fmt::format("{:.{}f}", rate, rate >= 100 ? 0 : 1);
}

std::string steps_text(const ProgressState& state) {
  return state.steps > 0 ? fmt::format("{}/{}", state.step, state.steps) : fmt::format("{}", state.step);
}

/// Returns the strings after the bar, the most important first.
std::vector<std::string> parts_of(const ProgressState& state) {
  std::vector<std::string> parts{steps_text(state)};
  if (state.loss) parts.push_back(fmt::format("loss {:.4f}", *state.loss));
  if (state.seconds_left) parts.push_back(text::duration(std::max(0.0, *state.seconds_left)) + " left");
  if (state.rate) parts.push_back(rate_text(*state.rate) + " " + state.unit);
  return parts;
}

/// Returns the parts in reading order: the rate before the time left.
std::string in_reading_order(std::vector<std::string> parts) {
  if (parts.size() >= 2 && parts[parts.size() - 2].ends_with(" left")) {
    std::swap(parts[parts.size() - 2], parts.back());
  }
  std::string line;
  for (const std::string& part : parts) line += std::string(kPartGap) + part;
  return line;
}

/// Draws the bar in eighths of a column, so that it moves with every step.
std::string bar_of(double share, int width) {
  static constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * width * 8);
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths.at(eighths % 8);
  return fmt::format("│{}│", pad(bar, width));
}

}  // namespace

std::string render_bar(const ProgressState& state, int width) {
  std::vector<std::string> parts = parts_of(state);
  // The text is as wide at step 1 as at the last step, so that the bar keeps its width.
  if (state.steps > 0) parts.front() = fmt::format("{:>{}}", parts.front(), 2 * std::to_string(state.steps).size() + 1);
  std::string tail = in_reading_order(parts);
  while (parts.size() > 1 && display_width(state.label) + display_width(tail) > width) {
    parts.pop_back();
    tail = in_reading_order(parts);
  }
  const int room = width - display_width(state.label) - display_width(tail) - static_cast<int>(kPartGap.size()) - 2;
  const bool has_bar = state.steps > 0 && room >= kNarrowestBar;
  const double share = has_bar ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  const std::string bar = has_bar ? std::string(kPartGap) + bar_of(share, std::min(room, kWidestBar)) : "";
  return fit(state.label + bar + tail, width);
}

std::string render_line(const ProgressState& state) {
  std::vector<std::string> parts = parts_of(state);
  parts.front() = fmt::format("step {}", parts.front());
  const std::string tail = in_reading_order(std::move(parts));
  return state.label.empty() ? tail.substr(kPartGap.size()) : state.label + tail;
}

void RateMeter::restart() {
  marks_.clear();
  total_ = 0;
  marks_.emplace_back(clock_.now(), 0);
}

void RateMeter::add(std::int64_t count) {
  const TimePoint now = clock_.now();
  if (marks_.empty()) marks_.emplace_back(now, 0);
  total_ += count;
  marks_.emplace_back(now, total_);
  // At least one mark older than the window stays, so that a step longer than the window still has a rate.
  while (marks_.size() > 2 && now - marks_[1].first >= window_) marks_.pop_front();
}

std::optional<double> RateMeter::rate() const {
  if (marks_.size() < 2) return std::nullopt;
  const Seconds span = marks_.back().first - marks_.front().first;
  if (span.count() <= 0) return std::nullopt;
  return static_cast<double>(marks_.back().second - marks_.front().second) / span.count();
}

ProgressOptions ProgressBar::for_stderr() {
  ProgressOptions options;
  options.live = is_terminal(STDERR_FILENO);
  options.width = terminal_width(STDERR_FILENO);
  if (is_quiet()) options.write = [](std::string_view) {};
  return options;
}

ProgressBar::ProgressBar(ProgressOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {
  if (!options_.write) {
    options_.write = [](std::string_view text) {
      while (!text.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written <= 0) return;  // a closed output must not end the training
        text.remove_prefix(static_cast<std::size_t>(written));
      }
    };
  }
}

ProgressBar::~ProgressBar() {
  try {
    clear();
  } catch (...) {  // a destructor must not throw
  }
}

void ProgressBar::update(const ProgressState& state) {
  const Seconds every = options_.live ? options_.draw_every : options_.line_every;
  if (last_ && clock_.now() - *last_ < every) {
    unshown_ = state;
    return;
  }
  draw(state);
}

void ProgressBar::finish(const ProgressState& state) {
  draw(state);
  if (options_.live) options_.write("\n");
  drawn_ = false;
  last_.reset();
}

void ProgressBar::message(std::string_view line) {
  wipe();
  options_.write(std::string(line) + "\n");
}

void ProgressBar::clear() {
  // A log that ends in the middle of a loop looks as if the loop had ended there, so the last state is drawn. A loop
  // that has no line in the log was short and needs none.
  const std::optional<ProgressState> held = std::exchange(unshown_, std::nullopt);  // draw() forgets the member
  if (!options_.live && held && held->label == shown_label_) draw(*held);
  wipe();
}

void ProgressBar::wipe() {
  if (!drawn_) return;
  options_.write("\r\033[K");
  drawn_ = false;
  last_.reset();
}

void ProgressBar::draw(const ProgressState& state) {
  last_ = clock_.now();
  unshown_.reset();
  if (!options_.live) {
    shown_label_ = state.label;
    options_.write(text::printable_line(render_line(state)) + "\n");
    return;
  }
  // One column stays free, because some terminals wrap as soon as the last column is written.
  options_.write(fmt::format("\r{}\033[K", text::printable_line(render_bar(state, options_.width - 1))));
  drawn_ = true;
}

}  // namespace lockstep::view
