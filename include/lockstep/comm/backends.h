// SPDX-License-Identifier: Apache-2.0
// The backends of this build.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the backends of this build: "local", "shm" and "tcp", then "nccl 2.27.3" if it was built in, and "ucx
/// 1.13.1" if it can be loaded.
[[nodiscard]] std::vector<std::string> built_backends();

}  // namespace lockstep

#pragma GCC visibility pop
