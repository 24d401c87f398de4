// SPDX-License-Identifier: Apache-2.0
// Turns the events of a flight ring into spans with a start and an end. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/flight/snapshot.h"

namespace lockstep::dashboard {

struct TimeSpan {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< `now_ns` for an open span
  std::string name;
  int kind = 0;  ///< 0: section, 1: collective, 2: failed collective
  std::int64_t step = -1;
  std::uint64_t bytes = 0;
  int bucket = -1;
  int depth = 0;  ///< number of enclosing sections
  bool is_open = false;
};

/// Returns the spans that end after `from_ns`, ordered by their end. A span that began before the ring's oldest event
/// is omitted.
[[nodiscard]] std::vector<TimeSpan> spans_of(const flight::Snapshot& ring, std::int64_t from_ns, std::int64_t now_ns);

}  // namespace lockstep::dashboard
