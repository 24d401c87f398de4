// SPDX-License-Identifier: Apache-2.0
// With which instructions and kernels a checkpoint was made: digests are promised for one set of them only.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::checkpoint {

/// Returns the instruction set of libtorch's kernels on this processor: "AVX512", "AVX2", "NEON", "DEFAULT".
[[nodiscard]] std::string instruction_set();

/// Returns "OpenBLAS 0.3.21 Cooperlake"; or "MKL 2024.2"; empty where libtorch has neither.
[[nodiscard]] std::string blas_kernels();

}  // namespace lockstep::checkpoint

#pragma GCC visibility pop
