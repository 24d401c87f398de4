// SPDX-License-Identifier: Apache-2.0
// The instructions of this processor that matter to the kernels of this module.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The instructions that the kernels use on this processor.
struct KernelProcessor {
  std::string vectors;            ///< vectors of the float32 kernels: "AVX-512", "AVX2"
  bool bfloat16_vectors = false;  ///< bfloat16 vector products, for the Winograd and direct kernels
  bool bfloat16_tiles = false;    ///< matrix units (AMX): libtorch then computes bfloat16 products
  bool bfloat16_is_slow = false;  ///< libtorch's bfloat16 products are slow: the layers use float32
};

/// Returns the instructions of this processor. Thread-safe: yes.
[[nodiscard]] KernelProcessor kernel_processor();

}  // namespace lockstep::nn

#pragma GCC visibility pop
