// SPDX-License-Identifier: Apache-2.0
// What messages call things in a program that has no command line for them.
#pragma once

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// "--resume auto" becomes "TrainerOptions::resume = "auto"", "--set epochs=3" "TrainConfig::epochs = 3", and so on.
/// Pure function.
[[nodiscard]] std::string program_words(const std::string& text);

/// `error` in program_words(), where they are others. Throws: that error, or nothing.
void throw_in_program_words(const Error& error);

}  // namespace lockstep::train
