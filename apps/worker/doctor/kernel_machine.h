// SPDX-License-Identifier: Apache-2.0
// The processor of `lockstep doctor kernels`: its features and its measured speed.
#pragma once

#include <cstdint>

#include "lockstep/view/kernel_report.h"

namespace lockstep::worker {

/// Measures copies and products with `threads` threads of libtorch, in about a second and a half.
[[nodiscard]] view::KernelMachine measure_kernel_machine(std::int64_t threads);

}  // namespace lockstep::worker
