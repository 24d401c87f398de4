// SPDX-License-Identifier: Apache-2.0
#include "common/scene_set.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/split.h"

namespace lockstep::common {
namespace {

constexpr std::string_view kPrefix = "scenes:";
constexpr std::int64_t kMost = 10'000'000;

UsageError no_scenes(const std::string& path, const std::string& why) {
  return UsageError(fmt::format("'{}' is not a valid set of scenes: {}", path, why),
                    "write it as scenes:COUNT, scenes:COUNT:SEED or scenes:COUNT:SEED:few, such as scenes:200:7");
}

template <class Number>
Number number_of(const std::string& text, const std::string& path) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc() && end == text.data() + text.size()) return number;
  throw no_scenes(path, fmt::format("'{}' is not a number", text));
}

}  // namespace

bool names_scenes(std::string_view path) noexcept { return path.starts_with(kPrefix); }

SceneSet parse_scene_set(const std::string& path) {
  const std::vector<std::string> parts = text::split(std::string_view(path).substr(kPrefix.size()), ':');
  SceneSet set{.count = number_of<std::int64_t>(parts[0], path)};
  if (parts.size() > 1) set.seed = number_of<std::uint64_t>(parts[1], path);
  if (parts.size() > 2) set.few = parts[2] == "few";
  if (parts.size() > 3 || (parts.size() == 3 && !set.few))
    throw no_scenes(path, fmt::format("'{}' is not 'few'", parts.back()));
  if (set.count < 1 || set.count > kMost) {
    throw UsageError(fmt::format("'{}' has {} scenes, must be 1 .. {}", path, set.count, kMost));
  }
  return set;
}

}  // namespace lockstep::common
