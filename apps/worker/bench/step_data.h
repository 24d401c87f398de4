// SPDX-License-Identifier: Apache-2.0
// What a timed step learns from where no data are given.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/data/dataset.h"
#include "lockstep/train/task.h"

namespace lockstep::worker {

/// The value of data.train in whose place random_captchas() come.
inline constexpr std::string_view kRandomImages = "random images";

/// Returns the value of data.train for a bench where none was given.
[[nodiscard]] std::string made_up_data(const std::string& recipe);

/// Random images and labels, as the recipe's own.
[[nodiscard]] std::shared_ptr<Dataset> random_captchas(const TrainConfig& config);

}  // namespace lockstep::worker
