// SPDX-License-Identifier: Apache-2.0
// The report of `lockstep doctor kernels` on a network's layers on a processor: each layer's kernel, how far it is from
// the machine's peak, and settings to change. Pure functions of a profile that recorded inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/machine_check.h"
#include "lockstep/view/profile.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The library whose code computes a layer.
enum class KernelMaker : std::uint8_t {
  kLockstep,  ///< the kernels of nn
  kOneDnn,    ///< oneDNN, called by libtorch
  kBlas,      ///< OpenBLAS or MKL, called by libtorch
  kAten       ///< libtorch's own loops
};

/// The kind of a layer, for the advice.
enum class LayerKind : std::uint8_t {
  kConvolution,  ///< a convolution of any shape
  kProduct,      ///< linear layers and matrix products
  kNorm,         ///< norms, with the operations fused into them
  kOther         ///< pooling, dropout, elementwise operations
};

/// The machine's capabilities and measured rates.
struct KernelMachine {
  std::string processor;                 ///< name of the processor
  std::int64_t threads = 1;              ///< number of libtorch's threads
  double copied_bytes_per_s = 0;         ///< rate of memcpy
  double float32_flops_per_s = 0;        ///< rate of matrix products
  double bfloat16_flops_per_s = 0;       ///< rate of bfloat16 matrix products
  std::string lockstep_vectors;          ///< instruction set of Lockstep's kernels: "AVX-512"
  std::string aten_vectors;              ///< instruction set of libtorch's loops
  std::string blas;                      ///< libtorch's BLAS: "OpenBLAS", "MKL"
  std::string blas_kernels;              ///< OpenBLAS's kernels: "Cooperlake"; empty: unknown
  std::string better_blas_kernels = {};  ///< OpenBLAS's kernels that suit this processor better; empty: none
  bool avx512 = false;                   ///< the processor has AVX-512
  bool bfloat16_vectors = false;         ///< the processor has bfloat16 vector products
  bool bfloat16_tiles = false;           ///< the processor has matrix units for bfloat16 (AMX)
  bool bfloat16_is_slow = false;         ///< bfloat16 products are slow, so Lockstep's layers multiply in float32
  std::string libtorch;                  ///< libtorch's version, "1.13.1"
};

/// The settings that determine which kernels a network gets.
struct KernelSettings {
  std::string network;        ///< the network: "captcha:conv3"
  std::int64_t batch = 0;     ///< batch_size
  std::string amp = "none";   ///< amp
  bool channels_last = true;  ///< channels_last
  bool fused_layers = true;   ///< fused_layers
};

/// One direction of a layer, in an average step.
struct KernelPass {
  double ns = 0;     ///< time of the pass
  double flops = 0;  ///< floating-point operations of its products; convolutions count as direct convolutions
  double bytes = 0;  ///< the minimum number of bytes to read and write; 0: unknown
};

/// The layers of one shape that one kernel computes.
struct KernelRow {
  std::string layer;                       ///< "conv 3x3, 64x64x30x80 to 128"
  std::string kernel;                      ///< "Winograd 4x4", "oneDNN"
  KernelMaker maker = KernelMaker::kAten;  ///< the library with the kernel
  std::string instructions;                ///< "AVX-512 bf16"; empty: unknown
  std::string type;                        ///< the dtype of the computation: "float32"
  LayerKind kind = LayerKind::kOther;      ///< the kind of the layers
  std::int64_t in = 0;                     ///< channels of the input
  std::int64_t out = 0;                    ///< channels of the output of a convolution or product
  bool is_plain_3x3 = false;               ///< true for a convolution whose shape allows Winograd's algorithm
  std::vector<std::string> modules = {};   ///< names of the layers with weights
  double calls = 0;                        ///< number of calls per step
  KernelPass forward = {};                 ///< the forward pass
  KernelPass backward = {};                ///< the backward pass
  double bound_ns = 0;                     ///< time of both passes at the machine's peak; 0: unknown

  /// Returns the time of both passes.
  [[nodiscard]] double ns() const noexcept { return forward.ns + backward.ns; }
  /// Returns the time that the passes take beyond bound_ns.
  [[nodiscard]] double lost_ns() const noexcept { return ns() > bound_ns ? ns() - bound_ns : 0; }
};

/// The whole report of `lockstep doctor kernels`.
struct KernelReport {
  KernelSettings settings;         ///< the requested settings
  KernelMachine machine;           ///< the machine that it ran on
  std::vector<KernelRow> rows;     ///< rows, by descending lost_ns()
  double step_ns = 0;              ///< time of an average step
  std::vector<Check> advice = {};  ///< kernel_advice()
};

/// Returns the kernels of the layers in the sections "forward" and "loss" of a profile that recorded inputs, by layer,
/// shape and kernel. Times are per average step.
[[nodiscard]] std::vector<KernelRow> kernel_table(const Profile& profile, const KernelMachine& machine);

/// Returns the table and the advice for a profile.
[[nodiscard]] KernelReport kernel_report(const Profile& profile, KernelSettings settings, KernelMachine machine);

/// Returns the known causes of slowness in the report's rows, each with a setting to change. It does not read `advice`.
[[nodiscard]] std::vector<Check> kernel_advice(const KernelReport& report);

/// Returns the table and the advice for a terminal of `width` columns. At most `most_rows` rows are shown; rows below
/// 0.2 % of the step are omitted.
[[nodiscard]] std::string kernels_text(const KernelReport& report, int width, bool color, std::size_t most_rows = 20);

/// Returns one JSON object: settings, machine, layers, advice. It ends with a newline.
[[nodiscard]] std::string kernels_json(const KernelReport& report);

}  // namespace lockstep::view

#pragma GCC visibility pop
