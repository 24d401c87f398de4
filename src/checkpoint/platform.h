// SPDX-License-Identifier: Apache-2.0
// On which instruction set a checkpoint was made: digests are promised for one of them only.
#pragma once

#include <string>

namespace lockstep::checkpoint {

/// What libtorch's kernels use on this processor: "AVX512", "AVX2", "NEON", "DEFAULT".
[[nodiscard]] std::string instruction_set();

}  // namespace lockstep::checkpoint
