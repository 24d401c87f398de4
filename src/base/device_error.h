// SPDX-License-Identifier: Apache-2.0
// What CUDA's asynchronous errors need said: they come up at a later call than the one that caused them. Text only, as
// base knows nothing of CUDA.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::base {

/// The hint for an error's text as libtorch prints it; empty where the text is no asynchronous error of a GPU: of a
/// kernel that ran when the host was elsewhere. `launch_blocking`: CUDA_LAUNCH_BLOCKING=1 is set. Pure function.
[[nodiscard]] std::string device_error_hint(std::string_view what, bool launch_blocking);

/// CUDA_LAUNCH_BLOCKING=1 is set.
[[nodiscard]] bool is_launch_blocking();

}  // namespace lockstep::base
