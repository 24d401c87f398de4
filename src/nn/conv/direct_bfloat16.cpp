// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include "lockstep/base/error.h"
#include "nn/conv/direct.h"
#include "nn/conv/direct_blocks.h"
#include "nn/conv/winograd.h"

#if defined(__x86_64__)
#include "nn/conv/bfloat16_vectors.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
namespace lockstep::nn {
namespace {

#include "nn/conv/product-inl.h"

#include "nn/conv/direct-inl.h"

void direct_pack_here(const DirectPlan& plan, const DirectWeights& weights, std::uint16_t* packed) {
  direct_pack_of<Bfloat16>(plan, weights, packed);
}
void direct_forward_here(const DirectPlan& plan, const DirectImages<std::uint16_t>& images, std::int64_t begin,
                         std::int64_t end) {
  direct_pieces<Bfloat16>(plan, images, begin, end);
}
void direct_sums_here(const DirectConv& conv, const DirectGradient<std::uint16_t>& gradient, const DirectPairs& pairs,
                      std::int64_t begin, std::int64_t end) {
  direct_weight_sums_of<Bfloat16>(conv, gradient, pairs, begin, end);
}

}  // namespace
}  // namespace lockstep::nn
HWY_POP_ATTRIBUTES

#else

namespace lockstep::nn {
namespace {

void direct_pack_here(const DirectPlan&, const DirectWeights&, std::uint16_t*) {}
void direct_forward_here(const DirectPlan&, const DirectImages<std::uint16_t>&, std::int64_t, std::int64_t) {}
void direct_sums_here(const DirectConv&, const DirectGradient<std::uint16_t>&, const DirectPairs&, std::int64_t,
                      std::int64_t) {}

}  // namespace
}  // namespace lockstep::nn

#endif

namespace lockstep::nn {
namespace {

void check_direct() {
  if (!winograd_has_bfloat16()) throw InternalError("this processor has no bfloat16 instructions");
}

}  // namespace

void direct_pack(const DirectPlan& plan, const DirectWeights& weights, std::uint16_t* packed) {
  check_direct();
  direct_pack_here(plan, weights, packed);
}

void direct_forward(const DirectPlan& plan, const DirectImages<std::uint16_t>& images, std::int64_t begin,
                    std::int64_t end) {
  check_direct();
  direct_forward_here(plan, images, begin, end);
}

void direct_weight_sums(const DirectConv& conv, const DirectGradient<std::uint16_t>& gradient, const DirectPairs& pairs,
                        std::int64_t begin, std::int64_t end) {
  check_direct();
  direct_sums_here(conv, gradient, pairs, begin, end);
}

}  // namespace lockstep::nn
