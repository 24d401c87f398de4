// SPDX-License-Identifier: Apache-2.0
// The processor's features and measured speed, for `lockstep doctor kernels`.
#pragma once

#include <cstdint>

#include "lockstep/view/kernel_report.h"

namespace lockstep::worker {

/// Measures memory copies and matrix products with `threads` libtorch threads. Blocks: about 1.5 s.
[[nodiscard]] view::KernelMachine measure_kernel_machine(std::int64_t threads);

}  // namespace lockstep::worker
