// SPDX-License-Identifier: Apache-2.0
// Advice for CUDA's asynchronous errors: they come up at a later call than the one that caused them. Text only, since
// base knows nothing of CUDA.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::base {

/// Returns the hint for an error text from libtorch; empty unless the text is of an asynchronous GPU error, from a
/// kernel that ran while the host was elsewhere. `launch_blocking`: CUDA_LAUNCH_BLOCKING=1 is set. Pure function.
[[nodiscard]] std::string device_error_hint(std::string_view message, bool launch_blocking);

/// True if CUDA_LAUNCH_BLOCKING=1 is set.
[[nodiscard]] bool is_launch_blocking();

}  // namespace lockstep::base
