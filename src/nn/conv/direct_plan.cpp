// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <numeric>

#include "nn/conv/direct.h"
#include "nn/conv/direct_blocks.h"

namespace lockstep::nn {
namespace {

/// A tap that is inside the image for some results, and the distance of its pixel from the start of the filter.
struct Reach {
  std::int64_t tap = 0;
  std::int64_t from = 0;

  bool operator==(const Reach&) const = default;
};

/// Results along one axis that use the same taps.
struct AxisClass {
  std::vector<Reach> taps;
  std::vector<DirectPixel> places;
};

void add_place(std::vector<AxisClass>& classes, const std::vector<Reach>& taps, DirectPixel place) {
  // Searches backwards: most results are in the middle, whose class was added last.
  const auto met =
      std::find_if(classes.rbegin(), classes.rend(), [&](const AxisClass& one) { return one.taps == taps; });
  auto at = met == classes.rend() ? classes.end() : std::prev(met.base());
  if (at == classes.end()) at = classes.insert(at, {.taps = taps, .places = {}});
  at->places.push_back(place);
}

std::vector<AxisClass> forward_classes(const DirectAxis& axis) {
  std::vector<AxisClass> classes;
  std::vector<Reach> taps;
  for (std::int64_t to = 0; to < axis.results(); ++to) {
    const std::int64_t first = to * axis.stride - axis.padding;
    taps.clear();
    for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
      const std::int64_t at = first + tap * axis.dilation;
      if (at >= 0 && at < axis.size) taps.push_back({.tap = tap, .from = tap * axis.dilation});
    }
    add_place(classes, taps, {.from = first, .to = to});
  }
  return classes;
}

/// Groups the pixels of the input by the results that use them. Taps are counted from the last.
std::vector<AxisClass> backward_classes(const DirectAxis& axis) {
  std::vector<AxisClass> classes;
  std::vector<Reach> taps;
  for (std::int64_t to = 0; to < axis.size; ++to) {
    const std::int64_t last = to + axis.padding;
    const std::int64_t first = last / axis.stride;
    taps.clear();
    for (std::int64_t turned = 0; turned < axis.kernel; ++turned) {
      const std::int64_t at = last - (axis.kernel - 1 - turned) * axis.dilation;
      if (at < 0 || at % axis.stride != 0 || at / axis.stride >= axis.results()) continue;
      taps.push_back({.tap = turned, .from = at / axis.stride - first});
    }
    add_place(classes, taps, {.from = first, .to = to});
  }
  return classes;
}

/// Widths of the input and output images, and of a row of taps.
struct Widths {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t kernel = 0;
};

std::vector<DirectRun> runs_of(const AxisClass& rows, const AxisClass& columns, const Widths& widths) {
  std::vector<DirectRun> runs;
  for (const Reach& row : rows.taps) {
    for (const Reach& column : columns.taps) {
      const DirectRun next{.from = row.from * widths.from + column.from, .tap = row.tap * widths.kernel + column.tap};
      const bool follows = !runs.empty() && runs.back().from + runs.back().taps == next.from &&
                           runs.back().tap + runs.back().taps == next.tap;
      if (follows) {
        ++runs.back().taps;
      } else {
        runs.push_back(next);
      }
    }
  }
  return runs;
}

std::vector<DirectClass> crossed(const std::vector<AxisClass>& rows, const std::vector<AxisClass>& columns,
                                 const Widths& widths) {
  std::vector<DirectClass> classes;
  for (const AxisClass& row : rows) {
    for (const AxisClass& column : columns) {
      DirectClass& both = classes.emplace_back();
      both.runs = runs_of(row, column, widths);
      both.pixels.reserve(row.places.size() * column.places.size());
      for (const DirectPixel& y : row.places) {
        for (const DirectPixel& x : column.places) {
          both.pixels.push_back({.from = y.from * widths.from + x.from, .to = y.to * widths.to + x.to});
        }
      }
    }
  }
  return classes;
}

/// A tap along one axis: its pixels (-1: outside), and the results that use them.
struct TapPlaces {
  std::vector<std::int32_t> from;
  std::vector<std::int32_t> to;
};

/// Returns the places for all results, or only for results for which the tap is inside.
TapPlaces places_of_tap(const DirectAxis& axis, std::int64_t tap, bool all) {
  TapPlaces places;
  for (std::int64_t to = 0; to < axis.results(); ++to) {
    const std::int64_t at = to * axis.stride - axis.padding + tap * axis.dilation;
    const bool inside = at >= 0 && at < axis.size;
    if (!inside && !all) continue;
    places.from.push_back(inside ? static_cast<std::int32_t>(at) : -1);
    places.to.push_back(static_cast<std::int32_t>(to));
  }
  return places;
}

/// Appends first + x for each x of `from`; -1 stays -1.
void append(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& from, std::int64_t first) {
  const auto begin = static_cast<std::int32_t>(first);
  const std::size_t at = to.size();
  to.resize(at + from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[at + i] = from[i] < 0 ? -1 : begin + from[i];
}

/// Adds tap `tap` to the pairs, for all results or only for results for which it is inside.
void add_tap(const DirectConv& conv, std::int64_t tap, bool all, DirectPairs& pairs) {
  const TapPlaces rows = places_of_tap(conv.rows, tap / conv.columns.kernel, all);
  const TapPlaces columns = places_of_tap(conv.columns, tap % conv.columns.kernel, all);
  const bool first = tap == pairs.tap;
  for (std::int64_t image = 0; image < conv.images; ++image) {
    for (std::size_t y = 0; y < rows.from.size(); ++y) {
      if (rows.from[y] < 0) {
        pairs.x.insert(pairs.x.end(), columns.from.size(), -1);
      } else {
        append(pairs.x, columns.from, image * conv.pixels() + rows.from[y] * conv.columns.size);
      }
      if (first) append(pairs.dy, columns.to, image * conv.results() + rows.to[y] * conv.columns.results());
    }
  }
}

}  // namespace

std::int64_t direct_chunks(const DirectPlan& plan) {
  return std::accumulate(plan.classes.begin(), plan.classes.end(), std::int64_t{0},
                         [&](std::int64_t sum, const DirectClass& one) {
                           const auto rows = static_cast<std::int64_t>(one.pixels.size()) * plan.images;
                           return sum + (rows + kDirectChunk - 1) / kDirectChunk;
                         });
}

std::int64_t DirectPlan::pieces() const { return direct_chunks(*this) * direct_blocks(out); }

DirectPlan direct_forward_plan(const DirectConv& conv) {
  const Widths widths{.from = conv.columns.size, .to = conv.columns.results(), .kernel = conv.columns.kernel};
  return {.images = conv.images,
          .from_pixels = conv.pixels(),
          .to_pixels = conv.results(),
          .in = conv.in,
          .out = conv.out,
          .taps = conv.taps(),
          .classes = crossed(forward_classes(conv.rows), forward_classes(conv.columns), widths)};
}

DirectPlan direct_backward_plan(const DirectConv& conv) {
  const Widths widths{.from = conv.columns.results(), .to = conv.columns.size, .kernel = conv.columns.kernel};
  return {.images = conv.images,
          .from_pixels = conv.results(),
          .to_pixels = conv.pixels(),
          .in = conv.out,
          .out = conv.in,
          .taps = conv.taps(),
          .classes = crossed(backward_classes(conv.rows), backward_classes(conv.columns), widths)};
}

std::int64_t direct_packed_size(const DirectPlan& plan) { return direct_columns(plan.out) * plan.taps * plan.in; }

std::vector<DirectPairs> direct_pairs(const DirectConv& conv) {
  // With more columns in a group, pixels and gradients would not fit in the second-level cache.
  constexpr std::int64_t kMostColumns = 640;
  const bool whole = conv.in % 16 != 0 || conv.taps() * conv.in <= kMostColumns;
  std::int64_t together = 1;
  if (whole) together = conv.taps();
  if (!whole && conv.columns.kernel * conv.in <= kMostColumns) together = conv.columns.kernel;
  std::vector<DirectPairs> groups;
  for (std::int64_t tap = 0; tap < conv.taps(); tap += together) {
    DirectPairs& group = groups.emplace_back(DirectPairs{.tap = tap, .taps = together, .x = {}, .dy = {}});
    group.x.reserve(static_cast<std::size_t>(together * conv.images * conv.results()));
    group.dy.reserve(static_cast<std::size_t>(conv.images * conv.results()));
    for (std::int64_t one = tap; one < tap + together; ++one) add_tap(conv, one, together > 1, group);
  }
  return groups;
}

}  // namespace lockstep::nn
