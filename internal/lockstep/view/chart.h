// SPDX-License-Identifier: Apache-2.0
// Charts of curves: their contents, the ticks of their axes, and their appearance in a terminal. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/view/run_curves.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The curve of one run.
struct ChartSeries {
  std::string name;  ///< the name of the run
  Curve points;      ///< the logged points
  Curve smooth;      ///< the points that are drawn; equal to `points` without smoothing
};

/// The curves of one metric over the steps, one for each run that has the metric.
struct Chart {
  std::string title;                ///< "loss"
  std::string unit;                 ///< the unit of the values; may be empty
  std::vector<ChartSeries> series;  ///< the curves, one for each run
};

/// Returns the charts of `runs` in the order loss, metrics, learning rate, images/s. Metrics that no run has are
/// omitted. `weight` smooths the loss and the speed (see smoothed()).
/// Throws: DataError if there is nothing to draw.
[[nodiscard]] std::vector<Chart> charts_of(const std::vector<RunCurves>& runs, double weight);

/// A range of numbers and its ticks. The distance between ticks is 1, 2 or 5 times a power of ten.
struct Axis {
  double low = 0;             ///< start of the axis
  double high = 1;            ///< end of the axis
  double distance = 1;        ///< distance between ticks
  std::vector<double> ticks;  ///< ticks, from low to high
};

/// Returns an axis from the tick at or below `low` to the tick at or above `high`, with at most `most` intervals. Equal
/// or unordered ends get a margin; if both are 0, the axis goes from 0 to 1.
[[nodiscard]] Axis value_axis(double low, double high, int most);
/// Returns an axis from exactly `low` to exactly `high`; its ticks are whole numbers.
[[nodiscard]] Axis step_axis(std::int64_t low, std::int64_t high, int most);

/// Returns the text of a tick: "0.25", "1,200", "1.5M", "2e-05", with enough digits to distinguish neighbours.
[[nodiscard]] std::string tick_label(double value, double distance);

/// The extent of all series of a chart.
struct ChartAxes {
  Axis steps;   ///< the horizontal axis
  Axis values;  ///< the vertical axis
};
/// Returns the axes of a chart. The value axis covers the smooth curves, so outliers do not stretch it.
[[nodiscard]] ChartAxes axes_of(const Chart& chart, int most_steps, int most_values);

/// The appearance of a chart in a terminal.
struct TextChartOptions {
  int width = 80;      ///< columns
  int height = 12;     ///< rows of dots, without title and ticks
  bool color = false;  ///< uses the terminal's colours
};

/// Draws `chart` with Unicode's braille dots, 2 x 4 per character. With several runs and no colour, a letter marks the
/// end of each curve. Every line ends with a newline.
[[nodiscard]] std::string text_chart(const Chart& chart, const TextChartOptions& options);

}  // namespace lockstep::view

#pragma GCC visibility pop
