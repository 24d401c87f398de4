// SPDX-License-Identifier: Apache-2.0
// Checks settings: ranges, and numbers that are stored as text because they may also be a word or part of a list.
#pragma once

#include <string>

#include "lockstep/base/config.h"

namespace lockstep::train {

/// Returns `text` as a number. Throws: UsageError naming the key if it is not a finite number.
[[nodiscard]] double number_of(const std::string& key, const std::string& text);

/// Throws: UsageError "KEY is VALUE; it must be NEEDED" unless `valid`.
void require_setting(bool valid, const char* key, double value, const char* needed);

/// Checks that the values of `config`, which describes its own rows, are within range. Throws: anything
/// ConfigFields::check() throws.
template <class Config>
void check_rows(const Config& config) {
  Config copy = config;
  ConfigFields fields;
  copy.describe(fields);
  fields.check();
}

}  // namespace lockstep::train
