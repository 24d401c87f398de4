// SPDX-License-Identifier: Apache-2.0
// The settings for an experiment's folder, as in the original code.
#pragma once

#include "common/start_words.h"

namespace lockstep::captioning {

inline constexpr common::StartWords kStartWords{.experiment = "folder", .snapshot = "snapshot/caption_model_{}.pth"};

}  // namespace lockstep::captioning
