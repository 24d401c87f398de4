// SPDX-License-Identifier: Apache-2.0
// The code shared by all evaluations across ranks, for any counts and any division of the samples.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/tensor/keep_random_state.h"

namespace lockstep::train {

/// Sets evaluation mode until it goes out of scope, then restores every module's own mode, including that of layers
/// that are frozen while the rest trains.
class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& model);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  torch::nn::Module& model_;
  bool was_training_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> others_;  // parents before children
};

/// Gives each batch of an evaluation its own random numbers, which a network may draw in evaluation mode too. They
/// depend only on the arguments below, so they are the same on any number of ranks, and after a resume. Its destructor
/// restores the generators of the CPU and of `device`, so that the caller's own numbers continue as if without it.
class BatchSeeds {
 public:
  BatchSeeds(const c10::Device& device, std::uint64_t seed);

  /// Seeds the default generators of all devices for batch `number` of part `part`, both from 0. No device waits.
  void begin(int part, std::int64_t number) const;

 private:
  std::uint64_t seed_;
  tensor::KeepRandomState kept_;
};

/// Returns the maximum over all ranks of a number, such as the number of evaluated samples. Collective: yes. Throws:
/// DataError if none is above 0.
[[nodiscard]] std::int64_t on_some_rank(ProcessGroup& group, std::int64_t own);

/// Sums one row of numbers for each of `parts` parts over all ranks, in tree order. `counts` has the rows of `block`,
/// float64 on the CPU; the row of a part without samples is undefined.
/// Collective: yes. Throws: DataError if no part has samples; UsageError if rows have different lengths.
[[nodiscard]] at::Tensor sum_over_parts(ProcessGroup& group, std::vector<at::Tensor> counts, ReplicaSpan block,
                                        int parts);

}  // namespace lockstep::train
