// SPDX-License-Identifier: Apache-2.0
// What this processor has for the kernels of this module.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The instructions that the kernels use here.
struct KernelProcessor {
  std::string vectors;            ///< of the kernels for float32: "AVX-512", "AVX2"
  bool bfloat16_vectors = false;  ///< vector products of bfloat16, which Winograd's and the direct kernel use
  bool bfloat16_tiles = false;    ///< matrix units (AMX): products of bfloat16 are libtorch's then
  bool bfloat16_is_slow = false;  ///< libtorch has no good products of bfloat16: the layers multiply in float32
};

/// Returns this processor's. Thread-safe: yes.
[[nodiscard]] KernelProcessor kernel_processor();

}  // namespace lockstep::nn

#pragma GCC visibility pop
