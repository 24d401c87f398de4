// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sources/held_out.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <tuple>

#include "lockstep/base/error.h"

namespace lockstep {

HeldOut hold_out(const ImageSource& source, double fraction, std::uint64_t seed) {
  if (!(fraction > 0 && fraction < 1)) {
    throw UsageError(fmt::format("the held-out fraction is {}; it must be above 0 and below 1", fraction));
  }
  const std::int64_t count = source.size();
  if (count < 2) throw DataError(fmt::format("a set of {} images cannot be split in two", count));
  std::vector<std::tuple<std::uint64_t, std::string, std::int64_t>> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string name = std::filesystem::path(source.describe(i)).stem().string();
    const std::uint64_t hash = XXH3_64bits_withSeed(name.data(), name.size(), seed);
    drawn.emplace_back(hash, std::move(name), i);
  }
  std::sort(drawn.begin(), drawn.end());
  const auto wanted = std::llround(static_cast<double>(count) * fraction);
  const auto held = std::clamp<std::int64_t>(wanted, 1, count - 1);
  HeldOut parts;
  for (std::int64_t i = 0; i < count; ++i) {
    (i < held ? parts.held_out : parts.rest).push_back(std::get<2>(drawn[static_cast<std::size_t>(i)]));
  }
  std::sort(parts.held_out.begin(), parts.held_out.end());
  std::sort(parts.rest.begin(), parts.rest.end());
  return parts;
}

}  // namespace lockstep
