// SPDX-License-Identifier: Apache-2.0
#include "plot/picture.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/fonts.h"

namespace lockstep::plot {
namespace {

using view::Chart;
using view::ChartAxes;

// Units: points in the SVG; a PNG has kSharpness pixels per point.
constexpr double kWidth = 460;  // width of a chart with its margins
constexpr double kHeight = 300;
constexpr double kLeft = 64;
constexpr double kRight = 18;
constexpr double kTop = 40;
constexpr double kBottom = 40;
constexpr double kLegendLine = 18;
constexpr double kLegendSpace = 14;
constexpr double kSharpness = 2;
constexpr const char* kFont = "DejaVu Sans";

struct Ink {
  double red, green, blue;
};
constexpr Ink kText{0.13, 0.13, 0.15};
constexpr Ink kFaintText{0.38, 0.38, 0.42};
constexpr Ink kGrid{0.90, 0.90, 0.92};
constexpr Ink kFrame{0.70, 0.70, 0.74};

// Okabe and Ito's colours, which colour-blind people can distinguish, without yellow, because paper is white.
constexpr std::array kInks = {Ink{0.00, 0.45, 0.70}, Ink{0.84, 0.37, 0.00}, Ink{0.00, 0.62, 0.45},
                              Ink{0.80, 0.47, 0.65}, Ink{0.34, 0.71, 0.91}, Ink{0.90, 0.62, 0.00},
                              Ink{0.35, 0.35, 0.35}};

Ink ink_of(std::size_t series) { return kInks[series % kInks.size()]; }

struct CairoDeleter {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
using Surface = std::unique_ptr<cairo_surface_t, CairoDeleter>;
using Context = std::unique_ptr<cairo_t, CairoDeleter>;

cairo_status_t append(void* to, const unsigned char* bytes, unsigned size) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(bytes), size);
  return CAIRO_STATUS_SUCCESS;
}

struct Point {
  double x, y;
};

struct Box {
  double x, y, width, height;
};

enum class Anchor { kStart, kMiddle, kEnd };

struct Letters {
  double size = 11;
  Ink ink = kFaintText;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
};

/// A sheet on which to draw the few shapes a chart needs.
class Sheet {
 public:
  explicit Sheet(cairo_t* cairo) : cairo_(cairo) {}

  void fill(const Box& box, Ink ink) {
    use(ink);
    cairo_rectangle(cairo_, box.x, box.y, box.width, box.height);
    cairo_fill(cairo_);
  }

  void frame(const Box& box, Ink ink) {
    use(ink);
    cairo_set_line_width(cairo_, 1);
    cairo_rectangle(cairo_, box.x, box.y, box.width, box.height);
    cairo_stroke(cairo_);
  }

  void line(Point from, Point to, Ink ink, double width) {
    use(ink);
    cairo_set_line_width(cairo_, width);
    cairo_move_to(cairo_, from.x, from.y);
    cairo_line_to(cairo_, to.x, to.y);
    cairo_stroke(cairo_);
  }

  /// Draws `text` and returns its width.
  double text(double x, double y, const std::string& text, const Letters& letters) {
    cairo_select_font_face(cairo_, kFont, CAIRO_FONT_SLANT_NORMAL,
                           letters.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo_, letters.size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, text.c_str(), &extents);
    const double share = letters.anchor == Anchor::kStart ? 0 : letters.anchor == Anchor::kMiddle ? 0.5 : 1;
    use(letters.ink);
    cairo_move_to(cairo_, x - share * extents.x_advance, y);
    cairo_show_text(cairo_, text.c_str());
    return extents.x_advance;
  }

  double text_width(const std::string& text, const Letters& letters) {
    cairo_select_font_face(cairo_, kFont, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo_, letters.size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, text.c_str(), &extents);
    return extents.x_advance;
  }

  /// Draws a curve, clipped to `clip`. `places` are in sheet points.
  void curve(const std::vector<Point>& places, const Box& clip, Ink ink, double opacity) {
    cairo_save(cairo_);
    cairo_rectangle(cairo_, clip.x, clip.y, clip.width, clip.height);
    cairo_clip(cairo_);
    cairo_set_source_rgba(cairo_, ink.red, ink.green, ink.blue, opacity);
    cairo_set_line_width(cairo_, opacity < 1 ? 1 : 1.6);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo_, CAIRO_LINE_CAP_ROUND);
    for (const auto& [x, y] : places) cairo_line_to(cairo_, x, y);
    cairo_stroke(cairo_);
    if (places.size() <= kFew && opacity >= 1) dots(places);
    cairo_restore(cairo_);
  }

 private:
  static constexpr std::size_t kFew = 12;  // curves of at most this many points get dots: a single point makes no line

  void use(Ink ink) { cairo_set_source_rgb(cairo_, ink.red, ink.green, ink.blue); }

  void dots(const std::vector<Point>& places) {
    constexpr double kFullCircle = 6.283185307179586;
    for (const auto& [x, y] : places) {
      cairo_arc(cairo_, x, y, 2.4, 0, kFullCircle);
      cairo_fill(cairo_);
    }
  }

  cairo_t* cairo_;
};

struct Frame {
  Box box;  ///< area in which the curves are drawn
  ChartAxes axes;

  [[nodiscard]] double x(double step) const {
    return box.x + (step - axes.steps.low) / (axes.steps.high - axes.steps.low) * box.width;
  }
  [[nodiscard]] double y(double value) const {
    return box.y + box.height - (value - axes.values.low) / (axes.values.high - axes.values.low) * box.height;
  }
};

/// Of the points in one column of pixels, keeps the first, the last and the extremes, so that the SVG of a run with a
/// million steps stays small and looks the same.
std::vector<Point> places_of(const view::Curve& curve, const Frame& frame) {
  std::vector<Point> places;
  for (std::size_t begin = 0; begin < curve.size();) {
    const double column = std::floor(frame.x(static_cast<double>(curve[begin].step)) * kSharpness);
    std::size_t end = begin;
    std::size_t low = begin;
    std::size_t high = begin;
    for (; end < curve.size() && std::floor(frame.x(static_cast<double>(curve[end].step)) * kSharpness) <= column;
         ++end) {
      if (curve[end].value < curve[low].value) low = end;
      if (curve[end].value > curve[high].value) high = end;
    }
    std::array kept = {begin, std::min(low, high), std::max(low, high), end - 1};
    std::size_t count = static_cast<std::size_t>(std::unique(kept.begin(), kept.end()) - kept.begin());
    for (std::size_t i = 0; i < count; ++i) {
      const view::CurvePoint& point = curve[kept[i]];
      places.push_back({frame.x(static_cast<double>(point.step)), frame.y(point.value)});
    }
    begin = end;
  }
  return places;
}

void draw_axes(Sheet& sheet, const Frame& frame) {
  const Box& box = frame.box;
  for (const double tick : frame.axes.values.ticks) {
    const double y = frame.y(tick);
    sheet.line({box.x, y}, {box.x + box.width, y}, kGrid, 1);
    sheet.text(box.x - 8, y + 4, view::tick_label(tick, frame.axes.values.distance), {.anchor = Anchor::kEnd});
  }
  for (const double tick : frame.axes.steps.ticks) {
    const double x = frame.x(tick);
    sheet.line({x, box.y}, {x, box.y + box.height}, kGrid, 1);
    sheet.text(x, box.y + box.height + 16, view::tick_label(tick, frame.axes.steps.distance),
               {.anchor = Anchor::kMiddle});
  }
  sheet.frame(box, kFrame);
  sheet.text(box.x + box.width, box.y + box.height + 32, "step", {.anchor = Anchor::kEnd});
}

bool is_smoothed(const view::ChartSeries& series) {
  return !std::equal(series.points.begin(), series.points.end(), series.smooth.begin(), series.smooth.end(),
                     [](const auto& a, const auto& b) { return a.value == b.value; });
}

/// A run's index in `runs` determines its colour, which is the same in all charts.
void draw_chart(Sheet& sheet, const Chart& chart, const Box& place, const std::vector<std::string>& runs) {
  constexpr int kMostStepTicks = 6;
  constexpr int kMostValueTicks = 6;
  const Frame frame{
      .box = {place.x + kLeft, place.y + kTop, place.width - kLeft - kRight, place.height - kTop - kBottom},
      .axes = axes_of(chart, kMostStepTicks, kMostValueTicks)};
  const double title = sheet.text(frame.box.x, place.y + 26, chart.title, {.size = 14, .ink = kText, .bold = true});
  if (!chart.unit.empty()) sheet.text(frame.box.x + title + 8, place.y + 26, "in " + chart.unit, {.size = 11});
  draw_axes(sheet, frame);
  const auto color_of = [&](const view::ChartSeries& series) {
    return ink_of(static_cast<std::size_t>(std::find(runs.begin(), runs.end(), series.name) - runs.begin()));
  };
  constexpr double kFaint = 0.25;
  for (const auto& series : chart.series) {
    if (is_smoothed(series)) sheet.curve(places_of(series.points, frame), frame.box, color_of(series), kFaint);
  }
  for (const auto& series : chart.series) {
    sheet.curve(places_of(series.smooth, frame), frame.box, color_of(series), 1);
  }
}

std::vector<std::string> runs_of(const std::vector<Chart>& charts) {
  std::vector<std::string> names;
  for (const Chart& chart : charts) {
    for (const auto& series : chart.series) {
      if (std::find(names.begin(), names.end(), series.name) == names.end()) names.push_back(series.name);
    }
  }
  return names;
}

struct Layout {
  std::size_t columns;
  std::size_t rows;
  double legend;  ///< height of the legend
  [[nodiscard]] double width() const { return kWidth * static_cast<double>(columns); }
  [[nodiscard]] double height() const { return legend + kHeight * static_cast<double>(rows); }
};

Layout layout_of(const std::vector<Chart>& charts, std::size_t runs) {
  const std::size_t columns = std::min<std::size_t>(charts.size(), 2);
  return {.columns = columns,
          .rows = (charts.size() + columns - 1) / columns,
          .legend = kLegendSpace + kLegendLine * static_cast<double>(runs)};
}

void draw_sheet(cairo_t* cairo, const std::vector<Chart>& charts) {
  Sheet sheet(cairo);
  const auto runs = runs_of(charts);
  const Layout layout = layout_of(charts, runs.size());
  sheet.fill({0, 0, layout.width(), layout.height()}, {1, 1, 1});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double y = kLegendSpace + kLegendLine * (static_cast<double>(i) + 0.5);
    sheet.line({kLeft, y - 4}, {kLeft + 22, y - 4}, ink_of(i), 3);
    sheet.text(kLeft + 30, y, runs[i], {.size = 12, .ink = kText});
  }
  for (std::size_t i = 0; i < charts.size(); ++i) {
    const Box place{kWidth * static_cast<double>(i % layout.columns),
                    layout.legend + kHeight * static_cast<double>(i / layout.columns), kWidth, kHeight};
    draw_chart(sheet, charts[i], place, runs);
  }
}

void require_drawn(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw ResourceError(fmt::format("the image cannot be drawn: {}", cairo_status_to_string(status)));
}

std::string svg_of(const std::vector<Chart>& charts, const Layout& layout) {
  std::string out;
  {
    const Surface surface(cairo_svg_surface_create_for_stream(append, &out, layout.width(), layout.height()));
    const Context context(cairo_create(surface.get()));
    draw_sheet(context.get(), charts);
    cairo_surface_finish(surface.get());
    require_drawn(cairo_status(context.get()));
  }
  return out;
}

std::string png_of(const std::vector<Chart>& charts, const Layout& layout) {
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(layout.width() * kSharpness),
                                                   static_cast<int>(layout.height() * kSharpness)));
  const Context context(cairo_create(surface.get()));
  cairo_scale(context.get(), kSharpness, kSharpness);
  draw_sheet(context.get(), charts);
  require_drawn(cairo_status(context.get()));
  std::string out;
  require_drawn(cairo_surface_write_to_png_stream(surface.get(), append, &out));
  return out;
}

// Uses the fonts and the fontconfig settings that the wheel brings, because a system without fontconfig settings rarely
// has fonts.
void take_own_fonts() {
  std::error_code problem;
  const std::filesystem::path own = font_folder().parent_path().parent_path() / "fonts.conf";
  if (std::filesystem::exists("/etc/fonts/fonts.conf", problem) || !std::filesystem::exists(own, problem)) return;
  ::setenv("FONTCONFIG_FILE", own.c_str(), 0);  // NOLINT(concurrency-mt-unsafe): no other thread yet
}

}  // namespace

void require_picture(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".png" || ending == ".svg") return;
  throw UsageError(fmt::format("--out {}: the name of an image file must end with .png or .svg", file.string()),
                   "--out curves.png");
}

void draw_picture(const std::vector<Chart>& charts, const std::filesystem::path& file) {
  require_picture(file);
  take_own_fonts();
  const Layout layout = layout_of(charts, runs_of(charts).size());
  const std::string bytes = file.extension() == ".svg" ? svg_of(charts, layout) : png_of(charts, layout);
  write_file_atomically(FileSystem::system(), file, bytes);
}

}  // namespace lockstep::plot
