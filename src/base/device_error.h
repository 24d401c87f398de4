// SPDX-License-Identifier: Apache-2.0
// Advice for CUDA's asynchronous errors, which a call reports later than the call that caused them. It reads only the
// error text, because base does not depend on CUDA.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::base {

/// Returns the hint for an error text from libtorch; empty unless it is an asynchronous GPU error. `launch_blocking`:
/// CUDA_LAUNCH_BLOCKING=1 is set. The function is pure.
[[nodiscard]] std::string device_error_hint(std::string_view message, bool launch_blocking);

/// Returns true if CUDA_LAUNCH_BLOCKING=1 is set.
[[nodiscard]] bool is_launch_blocking();

}  // namespace lockstep::base
