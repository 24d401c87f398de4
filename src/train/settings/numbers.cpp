// SPDX-License-Identifier: Apache-2.0
#include "train/settings/numbers.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"

namespace lockstep::train {

double number_of(const std::string& key, const std::string& text) {
  const auto number = text::parse_number(text);
  if (!number || !std::isfinite(*number)) throw UsageError(fmt::format("{} is '{}', not a number", key, text));
  return *number;
}

void require_setting(bool valid, const char* key, double value, const char* needed) {
  if (!valid) throw UsageError(fmt::format("{} is {}; it must be {}", key, value, needed));
}

}  // namespace lockstep::train
