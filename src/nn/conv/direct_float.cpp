// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/conv/direct_float.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/conv/direct.h"
#include "nn/conv/direct_blocks.h"
#include "nn/conv/float_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

#include "nn/conv/product-inl.h"

#include "nn/conv/direct-inl.h"

void direct_pack_float(const DirectPlan& plan, const DirectWeights& weights, float* packed) {
  direct_pack_of<Float>(plan, weights, packed);
}
void direct_forward_float(const DirectPlan& plan, const DirectImages<float>& images, std::int64_t begin,
                          std::int64_t end) {
  direct_pieces<Float>(plan, images, begin, end);
}
void direct_sums_float(const DirectConv& conv, const DirectGradient<float>& gradient, const DirectPairs& pairs,
                       std::int64_t begin, std::int64_t end) {
  direct_weight_sums_of<Float>(conv, gradient, pairs, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(direct_pack_float);
HWY_EXPORT(direct_forward_float);
HWY_EXPORT(direct_sums_float);

void direct_pack(const DirectPlan& plan, const DirectWeights& weights, float* packed) {
  HWY_DYNAMIC_DISPATCH(direct_pack_float)(plan, weights, packed);
}

void direct_forward(const DirectPlan& plan, const DirectImages<float>& images, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(direct_forward_float)(plan, images, begin, end);
}

void direct_weight_sums(const DirectConv& conv, const DirectGradient<float>& gradient, const DirectPairs& pairs,
                        std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(direct_sums_float)(conv, gradient, pairs, begin, end);
}

}  // namespace lockstep::nn
#endif
