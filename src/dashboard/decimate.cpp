// SPDX-License-Identifier: Apache-2.0
#include "dashboard/decimate.h"

#include <algorithm>

namespace lockstep::dashboard {
namespace {

using view::Curve;
using view::CurvePoint;

void add_piece(Curve& out, Curve::const_iterator begin, Curve::const_iterator end) {
  if (begin == end) return;
  const auto [least, largest] =
      std::minmax_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; });
  out.push_back(*std::min(least, largest));
  if (least != largest) out.push_back(*std::max(least, largest));
}

}  // namespace

Curve decimated(const Curve& curve, const CurveWindow& window) {
  const auto before = [](const CurvePoint& point, std::int64_t step) { return point.step < step; };
  auto begin = std::lower_bound(curve.begin(), curve.end(), window.low, before);
  auto end = std::upper_bound(begin, curve.end(), window.high,
                              [](std::int64_t step, const CurvePoint& point) { return step < point.step; });
  if (begin != curve.begin()) --begin;
  if (end != curve.end()) ++end;
  const auto size = static_cast<std::size_t>(end - begin);
  const std::size_t most = std::max<std::size_t>(window.points, 4);
  if (size <= most) return {begin, end};
  Curve out;
  out.push_back(*begin);  // the ends are kept, so that the curve covers the whole run
  const std::size_t pieces = most / 2 - 1;
  const auto inner = static_cast<std::size_t>(size - 2);
  for (std::size_t i = 0; i < pieces; ++i) {
    add_piece(out, begin + 1 + static_cast<std::ptrdiff_t>(inner * i / pieces),
              begin + 1 + static_cast<std::ptrdiff_t>(inner * (i + 1) / pieces));
  }
  out.push_back(*(end - 1));
  return out;
}

}  // namespace lockstep::dashboard
