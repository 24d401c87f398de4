// SPDX-License-Identifier: Apache-2.0
// The same names as in D-FINE's and DEIM's files.
#pragma once

#include "common/start_words.h"

namespace lockstep::detection {

inline constexpr common::StartWords kStartWords{.run_folder = "output_dir"};

}  // namespace lockstep::detection
