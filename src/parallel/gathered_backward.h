// SPDX-License-Identifier: Apache-2.0
// One step of autograd in place of the backward of several replicas: libtorch's engine walks one graph in one thread on
// the CPU, so each replica has its own graph, and this node runs them at the same time.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "parallel/replica_threads.h"

namespace lockstep::parallel {

/// A replica's own graph.
struct ReplicaGraph {
  std::vector<at::Tensor> arguments = {};   ///< leaves; those that need a gradient require one
  std::vector<at::Tensor> parameters = {};  ///< in the order of the model's parameters
  std::vector<at::Tensor> outputs = {};
};

/// The inputs of all replicas.
struct GatherInputs {
  std::vector<at::Tensor> arguments = {};  ///< the whole arguments
  std::vector<bool> is_split = {};         ///< by argument: split along dimension 0; false: each replica got all of it
  NamedTensors parameters = {};            ///< parameters of the model
};

/// Joins the outputs of `graphs` along dimension 0 (scalars become a list). If they need gradients, their backward runs
/// the replicas' backward on `threads`.
[[nodiscard]] std::vector<at::Tensor> gather(std::vector<ReplicaGraph> graphs, GatherInputs inputs,
                                             std::shared_ptr<ReplicaThreads> threads);

/// Adds tensors in tree order; undefined ones count as zero. The result has the type of `like`.
[[nodiscard]] at::Tensor sum_parts(const std::vector<at::Tensor>& parts, const at::Tensor& like);

/// Makes the gradients of `copies`, one for each replica, flow into `parameter` as their sum, and nowhere if it needs
/// none. The copies are no leaves, or need no gradient; they may have led back in an earlier forward.
void lead_back(const std::string& name, const at::Tensor& parameter, const std::vector<at::Tensor>& copies);

/// Returns `parts` as one tensor.
[[nodiscard]] at::Tensor join_parts(const std::vector<at::Tensor>& parts);

}  // namespace lockstep::parallel
