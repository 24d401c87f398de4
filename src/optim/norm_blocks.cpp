// SPDX-License-Identifier: Apache-2.0
#include "optim/norm_blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/tensor/threads.h"

namespace lockstep::optim {
namespace {

constexpr std::int64_t kBlocksPerThread = 16;

}  // namespace

NormPair norms_by_blocks(const Memory& memory, const std::function<NormPair(const Memory& block)>& squares) {
  const std::int64_t blocks = (memory.count + kNormBlockElements - 1) / kNormBlockElements;
  std::vector<NormPair> sums(static_cast<std::size_t>(blocks));
  tensor::parallel_for(0, blocks, kBlocksPerThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t from = block * kNormBlockElements;
      const std::int64_t to = std::min(from + kNormBlockElements, memory.count);
      sums[static_cast<std::size_t>(block)] = squares(part_of(memory, from, to));
    }
  });
  NormPair total;
  for (const NormPair& sum : sums) {
    total.first += sum.first;
    total.second += sum.second;
  }
  return {std::sqrt(total.first), std::sqrt(total.second)};
}

}  // namespace lockstep::optim
