// SPDX-License-Identifier: Apache-2.0
// Two norms of one parameter, summed in blocks whose borders no number of threads moves.
#pragma once

#include <cstdint>
#include <functional>

#include "optim/kernels.h"

namespace lockstep::optim {

inline constexpr std::int64_t kNormBlockElements = 4096;

/// Two sums of squares, or the norms from them.
struct NormPair {
  double first = 0;
  double second = 0;
};

/// `squares` is called for each block of `memory`, on libtorch's threads, and may update it. Returns the roots of the
/// sums, which are added in block order.
[[nodiscard]] NormPair norms_by_blocks(const Memory& memory,
                                       const std::function<NormPair(const Memory& block)>& squares);

}  // namespace lockstep::optim
