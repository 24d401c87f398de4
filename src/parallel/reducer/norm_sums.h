// SPDX-License-Identifier: Apache-2.0
// The gradient norm without a separate pass: each bucket's squares are summed at the end of its reduction.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::parallel {

/// A parameter's gradient in a bucket: `numel` elements, in memory order, starting at `offset`.
struct NormMember {
  std::size_t parameter = 0;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
};

/// The sums of squares of grad_norm()'s blocks. Each is computed by the rank in whose share of the bucket the block
/// begins; with `shm` that rank has just reduced it.
///
/// Thread-safe: no; calls must not overlap. The communication thread calls add().
class NormSums {
 public:
  NormSums(const NamedTensors& parameters, int world, int rank);

  /// Forgets all sums.
  void restart();
  /// Sums this rank's blocks of a reduced bucket: float32 or float64, flat, on the CPU.
  void add(const at::Tensor& bucket, const std::vector<NormMember>& members);
  /// Gives every rank all sums. For each block, one rank has the sum and the others have zero, so adding changes no
  /// bit.
  /// Collective: yes.  Blocks: yes.
  void combine(ProcessGroup& group);
  /// Returns the sums of one parameter's blocks in grad_norm().
  [[nodiscard]] std::vector<double> of(std::size_t parameter) const;

 private:
  int world_;
  int rank_;
  std::vector<std::int64_t> first_;  ///< index of each parameter's first block, then the total number of blocks
  at::Tensor sums_;
};

}  // namespace lockstep::parallel
