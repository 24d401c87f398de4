// SPDX-License-Identifier: Apache-2.0
// Chooses OpenBLAS's kernels. By itself OpenBLAS picks them before main, based on the processor's model number. If a
// processor is newer than the library, OpenBLAS mistakes it for an old one (0.3.21: Prescott or Haswell instead of
// Cooperlake). It then runs several times slower, and the results differ in the last bits. This module goes by the
// processor's features instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::blas {

/// The instruction sets that the processor and the system support.
struct CpuFeatures {
  bool avx2 = false;         ///< AVX2 and FMA
  bool avx512 = false;       ///< AVX-512 F, CD, BW, DQ and VL
  bool avx512_bf16 = false;  ///< AVX-512 BF16, in addition to avx512
};

/// Returns the features of this processor, as CPUID reports them.
[[nodiscard]] CpuFeatures cpu_features();

/// Returns the core type (OPENBLAS_CORETYPE) to use instead of `core`; empty if the kernels of `core` are already the
/// best this processor can run. A pure function.
[[nodiscard]] std::string better_core(std::string_view core, const CpuFeatures& features);

/// The BLAS library of this process.
struct Library {
  std::string version;   ///< "OpenBLAS 0.3.21"
  std::string core;      ///< the core type whose kernels it uses, such as "Cooperlake"; empty if not OpenBLAS
  std::string detected;  ///< the core type that OpenBLAS chose itself, if choose_kernels() replaced it; else empty
  bool by_user = false;  ///< OPENBLAS_CORETYPE was set when the process started

  /// Returns "OpenBLAS 0.3.21, Cooperlake kernels (it detected this processor as a Prescott)".
  [[nodiscard]] std::string text() const;
};

/// Returns the process's OpenBLAS; none if it has not loaded one. libtorch may use another library for matrix products,
/// see tensor::product_library(). Thread-safe: yes.
[[nodiscard]] std::optional<Library> loaded();

/// Makes this process's OpenBLAS use better_core(), unless OPENBLAS_CORETYPE is set. Returns true if the kernels
/// changed. The tensor module calls this before main, before the process runs any matrix product. Thread-safe: no; no
/// other thread may run a matrix product during the call.
bool choose_kernels();

/// Returns the value of OPENBLAS_CORETYPE that a launcher sets for the programs it starts; empty if it sets nothing. It
/// queries this process's OpenBLAS. If this process has none, a child process queries the system's. The result is empty
/// if the variable is already set. Blocks: until the child has answered. Cost: a few milliseconds if the library is in
/// the file cache; none without AVX2.
[[nodiscard]] std::string core_for_programs();

}  // namespace lockstep::blas

#pragma GCC visibility pop
