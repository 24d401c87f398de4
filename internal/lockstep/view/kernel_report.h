// SPDX-License-Identifier: Apache-2.0
// The report of `lockstep doctor kernels` on the layers of a network on a processor: the kernel that computes each, how
// far it is from the machine's peak, and the settings to change. Pure functions of a profile whose calls have their
// inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/machine_check.h"
#include "lockstep/view/profile.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The owner of the code that computes a layer.
enum class KernelMaker : std::uint8_t {
  kLockstep,  ///< the kernels of nn
  kOneDnn,    ///< oneDNN, by libtorch
  kBlas,      ///< OpenBLAS or MKL, by libtorch
  kAten       ///< libtorch's own loops
};

/// The kind of a layer, as far as the advice needs it.
enum class LayerKind : std::uint8_t {
  kConvolution,  ///< a convolution of any shape
  kProduct,      ///< linear layers and products of matrices
  kNorm,         ///< norms, with the operations that are fused into them
  kOther         ///< pooling, dropout, elementwise work
};

/// The machine's equipment, and its measured rates.
struct KernelMachine {
  std::string processor;                 ///< its name
  std::int64_t threads = 1;              ///< libtorch's threads
  double copied_bytes_per_s = 0;         ///< rate of memcpy
  double float32_flops_per_s = 0;        ///< rate of matrix products
  double bfloat16_flops_per_s = 0;       ///< rate of matrix products in bfloat16
  std::string lockstep_vectors;          ///< those of Lockstep's kernels: "AVX-512"
  std::string aten_vectors;              ///< those of libtorch's loops
  std::string blas;                      ///< "OpenBLAS", "MKL"
  std::string blas_kernels;              ///< OpenBLAS's kernels: "Cooperlake"; empty: unknown
  std::string better_blas_kernels = {};  ///< OpenBLAS's kernels that suit this processor better; else empty
  bool avx512 = false;                   ///< the processor has it
  bool bfloat16_vectors = false;         ///< vector products of bfloat16
  bool bfloat16_tiles = false;           ///< matrix units (AMX)
  bool bfloat16_is_slow = false;         ///< Lockstep's layers then multiply in float32
  std::string libtorch;                  ///< its version, "1.13.1"
};

/// The settings that decide which kernels a network gets.
struct KernelSettings {
  std::string network;        ///< "captcha:conv3"
  std::int64_t batch = 0;     ///< batch_size
  std::string amp = "none";   ///< amp
  bool channels_last = true;  ///< channels_last
  bool fused_layers = true;   ///< fused_layers
};

/// One direction of a layer, in an average step.
struct KernelPass {
  double ns = 0;     ///< its time
  double flops = 0;  ///< floating-point operations of its products; a convolution counts as the direct sum
  double bytes = 0;  ///< the least bytes to read and write; 0: unknown
};

/// Layers of one shape that one kernel computes.
struct KernelRow {
  std::string layer;                       ///< "conv 3x3, 64x64x30x80 to 128"
  std::string kernel;                      ///< "Winograd 4x4", "oneDNN"
  KernelMaker maker = KernelMaker::kAten;  ///< the owner of the kernel
  std::string instructions;                ///< "AVX-512 bf16"; empty: unknown
  std::string type;                        ///< the type in which it computes: "float32"
  LayerKind kind = LayerKind::kOther;      ///< its kind
  std::int64_t in = 0;                     ///< channels of the input
  std::int64_t out = 0;                    ///< channels of a convolution's or a product's results
  bool is_plain_3x3 = false;               ///< a convolution of the shape for Winograd's transform
  std::vector<std::string> modules = {};   ///< names of the layers that have weights
  double calls = 0;                        ///< in a step
  KernelPass forward = {};                 ///< forward
  KernelPass backward = {};                ///< backward
  double bound_ns = 0;                     ///< the time of both at the machine's peak; 0: unknown

  /// Returns the time of both directions.
  [[nodiscard]] double ns() const noexcept { return forward.ns + backward.ns; }
  /// Returns how much longer they take than at the machine's peak.
  [[nodiscard]] double lost_ns() const noexcept { return ns() > bound_ns ? ns() - bound_ns : 0; }
};

/// The whole report of `lockstep doctor kernels`.
struct KernelReport {
  KernelSettings settings;         ///< the settings that were asked for
  KernelMachine machine;           ///< the machine that it ran on
  std::vector<KernelRow> rows;     ///< the row that loses most time first
  double step_ns = 0;              ///< an average step
  std::vector<Check> advice = {};  ///< kernel_advice()
};

/// Returns the kernels of the layers in the sections "forward" and "loss" of a profile that recorded inputs, by layer,
/// shape and kernel. Times are those of an average step.
[[nodiscard]] std::vector<KernelRow> kernel_table(const Profile& profile, const KernelMachine& machine);

/// Returns table and advice of a profile.
[[nodiscard]] KernelReport kernel_report(const Profile& profile, KernelSettings settings, KernelMachine machine);

/// Returns the known causes of slowness in these rows, each with a setting to change; empty if there is none. It does
/// not read `advice`.
[[nodiscard]] std::vector<Check> kernel_advice(const KernelReport& report);

/// Returns the table and the advice for a terminal of `width` columns. At most `most_rows` rows are shown, and
/// none that takes less than 0.2 % of the step.
[[nodiscard]] std::string kernels_text(const KernelReport& report, int width, bool color, std::size_t most_rows = 20);

/// Returns one object: settings, machine, layers, advice. It ends with a line end.
[[nodiscard]] std::string kernels_json(const KernelReport& report);

}  // namespace lockstep::view

#pragma GCC visibility pop
