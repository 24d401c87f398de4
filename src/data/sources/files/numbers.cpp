// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/numbers.h"

#include <fmt/format.h>

namespace lockstep::data {

std::string object_fault(const Object& object) {
  const Box& box = object.box;
  if (!is_coordinate(box.x1) || !is_coordinate(box.y1) || !is_coordinate(box.x2) || !is_coordinate(box.y2)) {
    return fmt::format("a box of [{}, {}, {}, {}]", box.x1, box.y1, box.x2, box.y2);
  }
  if (!is_area(object.area)) return fmt::format("an area of {} pixels", object.area);
  for (const Point& point : object.points) {
    if (!is_coordinate(point.x) || !is_coordinate(point.y)) return fmt::format("a point at ({}, {})", point.x, point.y);
  }
  return "";
}

}  // namespace lockstep::data
