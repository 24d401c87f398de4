// SPDX-License-Identifier: Apache-2.0
// Two norms of one parameter, summed in blocks that do not depend on the number of threads.
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

/// Calls `squares`, which may update its block, for each block of `memory` on libtorch's threads. Returns the roots of
/// the sums, which are added in block order.
[[nodiscard]] NormPair norms_by_blocks(const Memory& memory,
                                       const std::function<NormPair(const Memory& block)>& squares);

}  // namespace lockstep::optim
