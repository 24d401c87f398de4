// SPDX-License-Identifier: Apache-2.0
// How far a loop is: a live bar on a terminal, plain lines elsewhere. The texts are pure functions.
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

/// What is shown; what is not known is left out.
struct ProgressState {
  std::string label;       ///< "epoch 3/150"
  std::int64_t step = 0;   ///< done, of `steps`
  std::int64_t steps = 0;  ///< 0: unknown, no bar is drawn
  std::optional<double> loss = {};
  std::optional<double> rate = {};  ///< `unit` per second
  std::optional<double> seconds_left = {};
  std::string unit = "images/s";
};

/// One line of at most `width` columns, without line end: label, bar, steps, loss, rate, time left. What does not fit
/// is dropped from the least telling on: the bar shrinks first.
[[nodiscard]] std::string render_bar(const ProgressState& state, int width);

/// The same as a plain line for a log: "epoch 3/150  step 40/391  loss 0.1234  812 images/s  0:43 left".
[[nodiscard]] std::string render_line(const ProgressState& state);

/// Units per second over the last few seconds, so that a slow first step is forgotten.
class RateMeter {
 public:
  explicit RateMeter(const Clock& clock, Seconds window = Seconds(10)) : clock_(clock), window_(window) {}

  /// `count` more units are done now.
  void add(std::int64_t count);
  /// Starts measuring now, as when the loop begins and after an evaluation: the pause does not count.
  void restart();
  /// None until there is an interval.
  [[nodiscard]] std::optional<double> rate() const;

 private:
  const Clock& clock_;
  Seconds window_;
  std::deque<std::pair<TimePoint, std::int64_t>> marks_;
  std::int64_t total_ = 0;
};

/// How a ProgressBar behaves.
struct ProgressOptions {
  bool live = false;                                 ///< a terminal: redraw one line
  int width = 80;                                    ///< columns, when live
  Seconds line_every = Seconds(10);                  ///< not live: at most one line in this time, and the last
  Seconds draw_every = Seconds(0.1);                 ///< live: at most one drawing in this time, and the last
  std::function<void(std::string_view)> write = {};  ///< default: stderr
};

/// Thread-safe: no; one loop owns it.
class ProgressBar {
 public:
  /// Live exactly where stderr is a terminal, with its width; silent where LOCKSTEP_QUIET is set.
  [[nodiscard]] static ProgressOptions for_stderr();

  ProgressBar(ProgressOptions options, const Clock& clock);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows `state` if it is time to.
  void update(const ProgressState& state);
  /// Shows `state` in any case: the last of a loop, or a step that is logged. Live, the line stays.
  void finish(const ProgressState& state);
  /// Prints `line` above the bar.
  void message(std::string_view line);
  /// The loop ended, or other output follows: takes the bar away (live), or writes the last state where the lines so
  /// far (not live) ended before it. The next update shows the bar again. The destructor does the same.
  void clear();

 private:
  void draw(const ProgressState& state);
  void wipe();

  ProgressOptions options_;
  const Clock& clock_;
  std::optional<TimePoint> last_;
  bool drawn_ = false;
  std::optional<ProgressState> unshown_;  // of the last update, where it was not yet time
  std::string shown_label_;
};

}  // namespace lockstep::view

#pragma GCC visibility pop
