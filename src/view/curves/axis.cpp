// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/view/chart.h"

namespace lockstep::view {
namespace {

/// Returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`.
double nice_distance(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Returns ticks as multiples of the distance, so that rounding errors do not add up.
std::vector<double> ticks_between(double low, double high, double distance) {
  std::vector<double> ticks;
  const double first = std::ceil(low / distance - 1e-6);
  const double last = std::floor(high / distance + 1e-6);
  for (double i = first; i <= last; ++i) ticks.push_back(i * distance);
  return ticks;
}

int decimals_of(double distance) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 12);
}

std::string without_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string in_units(double value, double distance, double unit, const char* letter) {
  return without_zeros(fmt::format("{:.{}f}", value / unit, decimals_of(distance / unit))) + letter;
}

}  // namespace

Axis value_axis(double low, double high, int most) {
  constexpr double kNothing = 1e-30;
  if (!(low < high) && !(std::abs(low) > kNothing)) {  // a metric that is still 0
    low = 0;
    high = 1;
  } else if (!(low < high)) {
    const double room = std::abs(low) * 0.1;
    low -= room;
    high = low + 2 * room;
  }
  Axis axis{.low = low, .high = high, .distance = nice_distance((high - low) / std::max(most, 1)), .ticks = {}};
  axis.low = std::floor(low / axis.distance + 1e-6) * axis.distance;
  axis.high = std::ceil(high / axis.distance - 1e-6) * axis.distance;
  axis.ticks = ticks_between(axis.low, axis.high, axis.distance);
  return axis;
}

Axis step_axis(std::int64_t low, std::int64_t high, int most) {
  Axis axis{.low = static_cast<double>(low), .high = static_cast<double>(std::max(high, low + 1)), .ticks = {}};
  axis.distance = std::max(1.0, nice_distance((axis.high - axis.low) / std::max(most, 1)));
  axis.ticks = ticks_between(axis.low, axis.high, axis.distance);
  return axis;
}

std::string tick_label(double value, double distance) {
  if (std::abs(value) < distance * 1e-6) return "0";
  if (distance < 1e-4) return fmt::format("{:.{}g}", value, 1 + decimals_of(distance / std::abs(value)));
  if (std::abs(value) >= 1e9 || distance >= 1e8) return in_units(value, distance, 1e9, "G");
  if (std::abs(value) >= 1e6 || distance >= 1e5) return in_units(value, distance, 1e6, "M");
  if (std::abs(value) >= 1e3 && distance >= 1) return text::thousands(static_cast<std::int64_t>(std::round(value)));
  return fmt::format("{:.{}f}", value, decimals_of(distance));
}

ChartAxes axes_of(const Chart& chart, int most_steps, int most_values) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  double low = 0;
  double high = 0;
  bool any = false;
  for (const ChartSeries& series : chart.series) {
    for (const CurvePoint& point : series.smooth) {
      first = any ? std::min(first, point.step) : point.step;
      last = any ? std::max(last, point.step) : point.step;
      low = any ? std::min(low, point.value) : point.value;
      high = any ? std::max(high, point.value) : point.value;
      any = true;
    }
  }
  // The axis begins at step 0 for a curve that begins near it, and for a single point.
  if (first > 0 && (first * 2 < last || first == last)) first = 0;
  return {.steps = step_axis(first, last, most_steps), .values = value_axis(low, high, most_values)};
}

}  // namespace lockstep::view
