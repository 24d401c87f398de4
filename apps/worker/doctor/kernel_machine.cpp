// SPDX-License-Identifier: Apache-2.0
#include "worker/doctor/kernel_machine.h"

#include <ATen/Context.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/Version.h>

#include <string>

#include "lockstep/base/blas.h"
#include "lockstep/nn/processor.h"
#include "lockstep/observe/machine_rates.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/tensor/torch_version.h"
#include "lockstep/view/banner.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kCopiedBytes = std::int64_t{64} << 20;
constexpr std::int64_t kCopies = 7;
constexpr double kPeakSeconds = 0.5;

/// libtorch's instruction set, such as "AVX2" from "... CPU capability usage: AVX2 ..."; empty if it is missing.
std::string aten_vectors() {
  constexpr std::string_view kKey = "CPU capability usage: ";
  const std::string config = at::show_config();
  const std::size_t at = config.find(kKey);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kKey.size();
  const std::string name = config.substr(begin, config.find_first_of(" \n", begin) - begin);
  return name == "AVX512" ? "AVX-512" : name;
}

void add_blas(view::KernelMachine& machine) {
  const auto library = tensor::product_library();
  machine.blas = library ? library->version.substr(0, library->version.find(' ')) : "BLAS";
  if (!library || library->core.empty()) return;
  machine.blas_kernels = library->core;
  machine.better_blas_kernels = blas::better_core(library->core, blas::cpu_features());
}

}  // namespace

view::KernelMachine measure_kernel_machine(std::int64_t threads) {
  tensor::set_threads(static_cast<int>(threads));
  const nn::KernelProcessor processor = nn::kernel_processor();
  view::KernelMachine machine{
      .processor = view::cpu_info().name,
      .threads = threads,
      .copied_bytes_per_s = observe::copied_bytes_per_s(kCopiedBytes, kCopies),
      .float32_flops_per_s = observe::peak_flops_per_s({.type = at::kFloat, .seconds = kPeakSeconds}),
      .bfloat16_flops_per_s = observe::peak_flops_per_s({.type = at::kBFloat16, .seconds = kPeakSeconds}),
      .lockstep_vectors = processor.vectors,
      .aten_vectors = aten_vectors(),
      .avx512 = blas::cpu_features().avx512,
      .bfloat16_vectors = processor.bfloat16_vectors,
      .bfloat16_tiles = processor.bfloat16_tiles,
      .bfloat16_is_slow = processor.bfloat16_is_slow,
      .libtorch = tensor::libtorch_version()};
  add_blas(machine);
  return machine;
}

}  // namespace lockstep::worker
