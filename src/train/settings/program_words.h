// SPDX-License-Identifier: Apache-2.0
// What messages call things in a program that has no command line for them.
#pragma once

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// Rewrites options: "--resume auto" becomes "TrainerOptions::resume = "auto"", "--set epochs=3" "TrainConfig::epochs =
/// 3", and so on. It is a pure function.
[[nodiscard]] std::string program_words(const std::string& text);

/// Rethrows `error` with its message in program_words(), where that differs. Throws: that error, or nothing.
void throw_in_program_words(const Error& error);

}  // namespace lockstep::train
