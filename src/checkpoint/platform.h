// SPDX-License-Identifier: Apache-2.0
// On what a checkpoint was made: digests are promised for one libtorch version and one instruction set.
#pragma once

#include <string>

namespace lockstep::checkpoint {

/// "1.13.0".
[[nodiscard]] std::string libtorch_version();

/// What libtorch's kernels use on this processor: "AVX512", "AVX2", "NEON", "DEFAULT".
[[nodiscard]] std::string instruction_set();

}  // namespace lockstep::checkpoint
