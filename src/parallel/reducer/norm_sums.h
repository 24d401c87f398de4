// SPDX-License-Identifier: Apache-2.0
// The gradient norm without a separate pass: the end of a bucket's reduction sums its blocks.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::parallel {

/// A parameter's gradient in a bucket: `numel` elements, in memory order, from `offset` on.
struct NormMember {
  std::size_t parameter = 0;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
};

/// The sums of squares of grad_norm()'s blocks, each computed by the one rank whose share of the bucket it begins in,
/// which with `shm` is the rank that has just reduced it.
///
/// Thread-safe: no two calls at a time; add() comes from the communication thread.
class NormSums {
 public:
  NormSums(const NamedTensors& parameters, int world, int rank);

  /// Forgets all sums.
  void restart();
  /// Sums this rank's blocks of a reduced bucket: float32 or float64, flat, on the CPU.
  void add(const at::Tensor& bucket, const std::vector<NormMember>& members);
  /// Sends all sums to every rank. One rank has the sum of a block and the others have zeros, so adding changes no bit.
  /// Collective: yes.  Blocks: yes.
  void combine(ProcessGroup& group);
  /// The blocks of one parameter in grad_norm().
  [[nodiscard]] std::vector<double> of(std::size_t parameter) const;

 private:
  int world_;
  int rank_;
  std::vector<std::int64_t> first_;  ///< by parameter: the number of its first block; then the number of all blocks
  at::Tensor sums_;
};

}  // namespace lockstep::parallel
