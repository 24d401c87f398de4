// SPDX-License-Identifier: Apache-2.0
// The names of the original code's options.
#pragma once

#include "common/start_words.h"

namespace lockstep::segmentation {

inline constexpr common::StartWords kStartWords{.folder_of_runs = "logdir"};

}  // namespace lockstep::segmentation
