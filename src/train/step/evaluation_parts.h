// SPDX-License-Identifier: Apache-2.0
// The common part of all evaluations over the ranks, with any count and any division of the samples.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <torch/nn/module.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"

namespace lockstep::train {

/// Sets evaluation mode until it goes out of scope; then every module has its own mode again, such as layers that are
/// frozen while the rest trains.
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

/// Returns the largest of all ranks' numbers; one is above 0 if any sample was evaluated.
/// Collective: yes. Throws: DataError if none is.
[[nodiscard]] std::int64_t on_some_rank(ProcessGroup& group, std::int64_t own);

/// Sums one row of numbers for each of `parts` parts over all ranks, in tree order. `counts` has the rows of `block`,
/// float64 on the CPU; an undefined one is of a part without samples.
/// Collective: yes. Throws: DataError if no part has any; UsageError if rows have different lengths.
[[nodiscard]] at::Tensor sum_over_parts(ProcessGroup& group, std::vector<at::Tensor> counts, ReplicaSpan block,
                                        int parts);

}  // namespace lockstep::train
