// SPDX-License-Identifier: Apache-2.0
// One autograd node that runs the backward of several replicas at the same time. On the CPU libtorch's engine walks a
// graph in one thread, so each replica has its own graph.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "parallel/replica_threads.h"

namespace lockstep::parallel {

/// A replica's own graph.
struct ReplicaGraph {
  std::vector<at::Tensor> arguments = {};   ///< arguments, as leaves that require a gradient if one is needed
  std::vector<at::Tensor> parameters = {};  ///< parameters, in the order of the model's parameters
  std::vector<at::Tensor> outputs = {};
};

/// The inputs of all replicas.
struct GatherInputs {
  std::vector<at::Tensor> arguments = {};  ///< the whole arguments
  std::vector<bool> is_split = {};  ///< for each argument: true if it is split along dimension 0, false if it is shared
  NamedTensors parameters = {};     ///< the model's parameters
};

/// Joins the outputs of `graphs` along dimension 0 (scalars become a list). If they need gradients, calling backward on
/// them runs the backward passes of the replicas on `threads`.
[[nodiscard]] std::vector<at::Tensor> gather(std::vector<ReplicaGraph> graphs, GatherInputs inputs,
                                             std::shared_ptr<ReplicaThreads> threads);

/// Adds tensors in tree order; undefined ones count as zero. The result has the type of `like`.
[[nodiscard]] at::Tensor sum_parts(const std::vector<at::Tensor>& parts, const at::Tensor& like);

/// If `parameter` needs a gradient, makes the sum of the gradients of `copies`, one for each replica, flow into it. The
/// copies are not leaves, or do not require a gradient; an earlier forward may have called this function for the same
/// copies.
void lead_back(const std::string& name, const at::Tensor& parameter, const std::vector<at::Tensor>& copies);

/// Returns `parts` joined to one tensor.
[[nodiscard]] at::Tensor join_parts(const std::vector<at::Tensor>& parts);

}  // namespace lockstep::parallel
