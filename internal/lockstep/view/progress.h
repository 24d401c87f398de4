// SPDX-License-Identifier: Apache-2.0
// The progress of a loop: a live bar on a terminal, plain lines elsewhere. Pure functions produce the text.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The values to show; unknown values are omitted.
struct ProgressState {
  std::string label;                        ///< "epoch 3/150"
  std::int64_t step = 0;                    ///< steps done
  std::int64_t steps = 0;                   ///< total steps; 0: unknown, and no bar is drawn
  std::optional<double> loss = {};          ///< loss of the last step
  std::optional<double> rate = {};          ///< rate in `unit`
  std::optional<double> seconds_left = {};  ///< time that is left
  std::string unit = "images/s";            ///< unit of the rate
};

/// Returns one line of at most `width` columns, without a newline: label, bar, steps, loss, rate, time left. The least
/// important parts that do not fit are dropped; the bar shrinks first.
[[nodiscard]] std::string render_bar(const ProgressState& state, int width);

/// Returns the state as a plain line for a log: "epoch 3/150  step 40/391  loss 0.1234  812 images/s  0:43 left".
[[nodiscard]] std::string render_line(const ProgressState& state);

/// Measures units per second over the last few seconds, so that a slow first step is forgotten.
class RateMeter {
 public:
  explicit RateMeter(const Clock& clock, Seconds window = Seconds(10)) : clock_(clock), window_(window) {}

  /// Records that `count` more units are done now.
  void add(std::int64_t count);
  /// Starts measuring now. Call it when the loop begins and after an evaluation, so that the pause does not count.
  void restart();
  /// Returns units per second; none until there is an interval to measure.
  [[nodiscard]] std::optional<double> rate() const;

 private:
  const Clock& clock_;
  Seconds window_;
  std::deque<std::pair<TimePoint, std::int64_t>> marks_;
  std::int64_t total_ = 0;
};

/// The behaviour of a ProgressBar.
struct ProgressOptions {
  bool live = false;                  ///< true on a terminal: a line is redrawn in place
  int width = 80;                     ///< columns of the terminal, if live
  Seconds line_every = Seconds(60);   ///< minimum time between lines, except for the last line
  Seconds draw_every = Seconds(0.1);  ///< minimum time between redraws of a live bar, except for the last one
  std::function<void(std::string_view)> write = {};  ///< receives the output; empty: stderr
};

/// A progress bar, or progress lines. Thread-safe: no; one loop owns it.
class ProgressBar {
 public:
  /// Returns options that are live if stderr is a terminal, with its width, and silent if LOCKSTEP_QUIET is set.
  [[nodiscard]] static ProgressOptions for_stderr();

  ProgressBar(ProgressOptions options, const Clock& clock);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows `state` if enough time has passed.
  void update(const ProgressState& state);
  /// Shows `state` unconditionally, for the last state of a loop or a logged step. If live, the line stays.
  void finish(const ProgressState& state);
  /// Prints `line` above the bar.
  void message(std::string_view line);
  /// Call it when the loop has ended or other output follows. If live, it removes the bar; else it writes the last
  /// state, if that is still unwritten. The next update shows the bar again. The destructor calls it.
  void clear();

 private:
  void draw(const ProgressState& state);
  void wipe();

  ProgressOptions options_;
  const Clock& clock_;
  std::optional<TimePoint> last_;
  bool drawn_ = false;
  std::optional<ProgressState> unshown_;  // the state of the last update, if it was not shown
  std::string shown_label_;
};

}  // namespace lockstep::view

#pragma GCC visibility pop
