// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/clock.h"

#include <array>
#include <ctime>

namespace lockstep {

const SystemClock& SystemClock::instance() {
  static const SystemClock clock;
  return clock;
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return {text.data(), length};
}

}  // namespace lockstep
