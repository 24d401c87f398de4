// SPDX-License-Identifier: Apache-2.0
// Data for a timed step if no data set is given.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/data/dataset.h"
#include "lockstep/train/task.h"

namespace lockstep::worker {

/// The value of data.train that selects random_captchas().
inline constexpr std::string_view kRandomImages = "random images";

/// Returns the value of data.train for a benchmark that does not set it.
[[nodiscard]] std::string made_up_data(const std::string& recipe);

/// Random images and labels in the form of the captcha recipe's data.
[[nodiscard]] std::shared_ptr<Dataset> random_captchas(const TrainConfig& config);

}  // namespace lockstep::worker
