// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/view/chart.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace {

constexpr std::array kColors = {Color::kCyan, Color::kYellow, Color::kGreen, Color::kRed, Color::kBold, Color::kDim};
constexpr int kAcross = 2;  // dots per character
constexpr int kDown = 4;

struct Cell {
  unsigned dots = 0;
  std::size_t series = 0;  ///< the last series that drew here
  char letter = 0;         ///< a letter instead of dots; 0: none
};

/// A canvas of braille dots.
class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

  void dot(int x, int y, std::size_t series) {
    if (x < 0 || y < 0 || x >= columns_ * kAcross || y >= rows_ * kDown) return;
    // Unicode numbers the dots of the upper three rows first, column by column, and then the dots of the fourth row.
    constexpr std::array<std::array<unsigned, 2>, 4> kBits = {{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    Cell& cell = at(x / kAcross, y / kDown);
    cell.dots |= kBits[static_cast<std::size_t>(y % kDown)][static_cast<std::size_t>(x % kAcross)];
    cell.series = series;
  }

  void line(std::pair<int, int> from, std::pair<int, int> to, std::size_t series) {
    const int steps = std::max({std::abs(to.first - from.first), std::abs(to.second - from.second), 1});
    for (int i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(from.first + share * (to.first - from.first))),
          static_cast<int>(std::lround(from.second + share * (to.second - from.second))), series);
    }
  }

  void letter(int x, int y, char letter) {
    at(std::clamp(x / kAcross, 0, columns_ - 1), std::clamp(y / kDown, 0, rows_ - 1)).letter = letter;
  }

  [[nodiscard]] std::string row(int row, bool color) const {
    std::string out;
    for (int column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[static_cast<std::size_t>(row * columns_ + column)];
      out += paint(glyph(cell), kColors[cell.series % kColors.size()], color && (cell.dots != 0 || cell.letter != 0));
    }
    return out;
  }

 private:
  Cell& at(int column, int row) { return cells_[static_cast<std::size_t>(row * columns_ + column)]; }

  static std::string glyph(const Cell& cell) {
    if (cell.letter != 0) return {cell.letter};
    if (cell.dots == 0) return " ";
    constexpr unsigned kBlank = 0x2800;
    const unsigned code = kBlank + cell.dots;
    return {static_cast<char>(0xE0U | (code >> 12U)), static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)),
            static_cast<char>(0x80U | (code & 0x3FU))};
  }

  int columns_;
  int rows_;
  std::vector<Cell> cells_;
};

struct Plan {
  ChartAxes axes;
  std::vector<std::string> labels;  ///< tick labels of the values
  int margin = 0;                   ///< columns left of the canvas, including the axis
  int columns = 0;
  int rows = 0;
};

Plan plan_of(const Chart& chart, const TextChartOptions& options) {
  Plan plan{.axes = axes_of(chart, std::max(2, options.width / 16), std::max(2, options.height / 3)), .labels = {}};
  for (const double tick : plan.axes.values.ticks) {
    plan.labels.push_back(tick_label(tick, plan.axes.values.distance));
    plan.margin = std::max(plan.margin, display_width(plan.labels.back()) + 2);
  }
  plan.columns = std::max(8, options.width - plan.margin);
  plan.rows = std::max(2, options.height);
  return plan;
}

int scaled(double value, const Axis& axis, int dots) {
  return static_cast<int>(std::lround((value - axis.low) / (axis.high - axis.low) * (dots - 1)));
}

std::pair<int, int> place_of(const CurvePoint& point, const Plan& plan) {
  const int down = plan.rows * kDown;
  return {scaled(static_cast<double>(point.step), plan.axes.steps, plan.columns * kAcross),
          down - 1 - scaled(point.value, plan.axes.values, down)};
}

void draw(Canvas& canvas, const Plan& plan, const Curve& curve, std::size_t series) {
  std::pair<int, int> last = place_of(curve.front(), plan);
  for (const CurvePoint& point : curve) {
    const auto place = place_of(point, plan);
    canvas.line(last, place, series);
    last = place;
  }
}

char letter_of(std::size_t series) { return static_cast<char>('a' + series % 26); }

/// Returns the title and, if there are several runs, a line below it for each run with the run's last value.
std::string title_lines(const Chart& chart, const TextChartOptions& options) {
  std::string title = chart.title + (chart.unit.empty() ? "" : " (" + chart.unit + ")");
  const bool is_one = chart.series.size() == 1;
  if (is_one) {
    const ChartSeries& series = chart.series.front();
    title += fmt::format("  {:.4g}  {}", series.points.back().value, series.name);
  }
  std::string lines = paint(fit(title, options.width), Color::kBold, options.color) + "\n";
  for (std::size_t i = 0; i < chart.series.size() && !is_one; ++i) {
    const ChartSeries& series = chart.series[i];
    const std::string mark = options.color ? "━" : std::string(1, letter_of(i));
    lines += paint(mark, kColors[i % kColors.size()], options.color) +
             fit(fmt::format(" {:<10.4g} {}", series.points.back().value, series.name), options.width - 1) + "\n";
  }
  return lines;
}

std::string step_labels(const Plan& plan) {
  std::string line(static_cast<std::size_t>(plan.margin + plan.columns), ' ');
  std::size_t free = 0;
  for (const double tick : plan.axes.steps.ticks) {
    const std::string label = tick_label(tick, plan.axes.steps.distance);
    const int middle = plan.margin + scaled(tick, plan.axes.steps, plan.columns);
    const auto half = static_cast<int>(label.size() / 2);
    const int last = static_cast<int>(line.size() - label.size());
    const auto begin = static_cast<std::size_t>(std::clamp(middle - half, 0, std::max(last, 0)));
    if (begin < free || label.size() > line.size()) continue;
    line.replace(begin, label.size(), label);
    free = begin + label.size() + 2;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string text_chart(const Chart& chart, const TextChartOptions& options) {
  const Plan plan = plan_of(chart, options);
  Canvas canvas(plan.columns, plan.rows);
  for (std::size_t i = 0; i < chart.series.size(); ++i) draw(canvas, plan, chart.series[i].smooth, i);
  for (std::size_t i = 0; i < chart.series.size() && !options.color && chart.series.size() > 1; ++i) {
    const auto place = place_of(chart.series[i].smooth.back(), plan);
    canvas.letter(place.first, place.second, letter_of(i));
  }
  std::vector<std::string> labels(static_cast<std::size_t>(plan.rows));
  for (std::size_t i = 0; i < plan.labels.size(); ++i) {
    const int y = plan.rows - 1 - scaled(plan.axes.values.ticks[i], plan.axes.values, plan.rows);
    labels[static_cast<std::size_t>(y)] = plan.labels[i];
  }
  std::string out = title_lines(chart, options);
  for (int row = 0; row < plan.rows; ++row) {
    const std::string& label = labels[static_cast<std::size_t>(row)];
    std::string line =
        pad(label, plan.margin - 1, Align::kRight) + (label.empty() ? "│" : "┤") + canvas.row(row, options.color);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out + step_labels(plan);
}

}  // namespace lockstep::view
