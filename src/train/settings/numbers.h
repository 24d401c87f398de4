// SPDX-License-Identifier: Apache-2.0
// Settings that are kept as text, because they may also be a word or stand in a list.
#pragma once

#include <string>

namespace lockstep::train {

/// Throws: UsageError naming the key where `text` is no finite number.
[[nodiscard]] double number_of(const std::string& key, const std::string& text);

/// Throws: UsageError "KEY is VALUE; it must be NEEDED" unless `valid`.
void require_setting(bool valid, const char* key, double value, const char* needed);

}  // namespace lockstep::train
