// SPDX-License-Identifier: Apache-2.0
// The instruction set and kernels that produced a checkpoint. Equal digests are guaranteed only if these are the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/manifest.h"

#pragma GCC visibility push(default)

namespace lockstep::checkpoint {

/// Returns the instruction set of libtorch's kernels on this processor: "AVX512", "AVX2", "NEON", "DEFAULT".
[[nodiscard]] std::string instruction_set();

/// Returns "OpenBLAS 0.3.21 Cooperlake" or "MKL 2024.2"; empty if libtorch has neither.
[[nodiscard]] std::string blas_kernels();

/// Returns the process's variables that choose kernels: "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2", or "none".
/// Omits an OPENBLAS_CORETYPE that names the kernels of blas_kernels(): the launcher sets it, and a process without a
/// launcher chooses the same kernels.
[[nodiscard]] std::string kernel_variables();

/// Returns arguments for the `env` command that set a checkpoint's variables, as recorded by kernel_variables() and
/// blas_kernels(), and unset the others: {"-u", "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE=Haswell"}.
/// Empty: the checkpoint does not record them.
[[nodiscard]] std::vector<std::string> words_for_env(const Manifest& manifest);

/// Returns "libtorch 1.13.1, AVX512, OpenBLAS 0.3.21 Cooperlake", and the variables if there are any.
[[nodiscard]] std::string platform();
/// Returns platform() of a checkpoint; this process supplies facts that the checkpoint lacks.
[[nodiscard]] std::string platform_of(const Manifest& manifest);

}  // namespace lockstep::checkpoint

#pragma GCC visibility pop
