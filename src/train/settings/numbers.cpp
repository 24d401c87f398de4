// SPDX-License-Identifier: Apache-2.0
#include "train/settings/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep::train {

double number_of(const std::string& key, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0';
  if (!whole || !std::isfinite(number)) throw UsageError(fmt::format("{} is '{}', not a number", key, text));
  return number;
}

void require_setting(bool valid, const char* key, double value, const char* needed) {
  if (!valid) throw UsageError(fmt::format("{} is {}; it must be {}", key, value, needed));
}

}  // namespace lockstep::train
