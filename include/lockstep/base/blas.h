// SPDX-License-Identifier: Apache-2.0
// Which kernels OpenBLAS multiplies with. OpenBLAS chooses them by the model number of the processor, before main. A
// processor younger than the library is taken for an old one (0.3.21: Prescott or Haswell in the place of Cooperlake),
// computes several times slower, and with other bits. What the processor can do is the better witness.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::blas {

/// What the processor and the system let a program use.
struct CpuFeatures {
  bool avx2 = false;         ///< with FMA
  bool avx512 = false;       ///< F, CD, BW, DQ and VL
  bool avx512_bf16 = false;  ///< on top of avx512
};

[[nodiscard]] CpuFeatures cpu_features();

/// The core type (OPENBLAS_CORETYPE) to take in the place of `core`; empty where `core` has kernels of the best kind
/// that the processor can run. Pure.
[[nodiscard]] std::string better_core(std::string_view core, const CpuFeatures& features);

/// The library that this process multiplies with.
struct Library {
  std::string version;   ///< "OpenBLAS 0.3.21"
  std::string core;      ///< the core type whose kernels it uses: "Cooperlake"
  std::string detected;  ///< the core type that it had chosen, where another was put in its place; else empty
  bool by_user = false;  ///< OPENBLAS_CORETYPE was set when the process started

  /// "OpenBLAS 0.3.21, Cooperlake kernels (it took this processor for a Prescott)".
  [[nodiscard]] std::string text() const;
};

/// None where the process has no OpenBLAS (MKL in PyTorch's own libtorch).
/// Thread-safe: yes.
[[nodiscard]] std::optional<Library> loaded();

/// Has the OpenBLAS of this process take better_core(), unless OPENBLAS_CORETYPE is set. Returns true where the kernels
/// are others now. The module tensor calls this before main, so that no product of the process comes from other
/// kernels. Thread-safe: no; no other thread may multiply meanwhile.
bool choose_kernels();

/// What a launcher sets OPENBLAS_CORETYPE to for the programs it starts; empty: nothing. Asks this process's OpenBLAS,
/// or where it has none the system's, in a child. Empty where the variable is set already. Blocks: for the child. Cost:
/// some milliseconds where the library is in the cache of files; none without AVX2.
[[nodiscard]] std::string core_for_programs();

}  // namespace lockstep::blas

#pragma GCC visibility pop
