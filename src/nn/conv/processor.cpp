// SPDX-License-Identifier: Apache-2.0
// Like the kernels, this file is compiled once for each instruction set (foreach_target.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/conv/processor.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <cstdint>

#include "lockstep/nn/processor.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

std::int64_t target_here() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <ATen/core/ivalue.h>  // before any other torch header

#include <string_view>

#include "nn/conv/conv_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

HWY_EXPORT(target_here);

/// Highway's name for AVX-512 is AVX3, with a suffix for additional instructions.
std::string vectors_name(std::string_view target) {
  if (target.starts_with("AVX3")) return "AVX-512";
  return std::string(target);
}

}  // namespace

KernelProcessor kernel_processor() {
  const ConvProcessor conv = conv_processor();
  return {.vectors = vectors_name(hwy::TargetName(HWY_DYNAMIC_DISPATCH(target_here)())),
          .bfloat16_vectors = conv.bfloat16_vectors,
          .bfloat16_tiles = conv.bfloat16_tiles,
          .bfloat16_is_slow = detail::multiplies_slowly(at::kBFloat16)};
}

}  // namespace lockstep::nn
#endif
