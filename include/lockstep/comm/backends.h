// SPDX-License-Identifier: Apache-2.0
// The backends of this build.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the backends of this build: "local" and "shm", then "gloo" and "nccl 2.27.3" where they were built in.
[[nodiscard]] std::vector<std::string> built_backends();

}  // namespace lockstep

#pragma GCC visibility pop
