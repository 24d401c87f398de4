// SPDX-License-Identifier: Apache-2.0
// device_text(): the table of a GPU's kernels.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/view/profile.h"

namespace lockstep::view {

/// Returns the kinds of kernels, the kernels, and what bounds a step; "" without a GPU.
[[nodiscard]] std::string device_text(const Profile& profile, const MachineRates& rates, std::size_t most_rows);

}  // namespace lockstep::view
