// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/rare_warning.h"

#include <utility>

namespace lockstep {
namespace {

constexpr auto kPause = std::chrono::seconds(1);

}  // namespace

std::optional<std::size_t> RareWarning::add(TimePoint now) {
  ++unsaid_;
  return due(now);
}

std::optional<std::size_t> RareWarning::due(TimePoint now) {
  if (unsaid_ == 0 || (last_ && now < *last_ + kPause)) return std::nullopt;
  last_ = now;
  return std::exchange(unsaid_, 0);
}

std::optional<TimePoint> RareWarning::next() const {
  if (unsaid_ == 0) return std::nullopt;
  return last_ ? *last_ + kPause : TimePoint();
}

}  // namespace lockstep
