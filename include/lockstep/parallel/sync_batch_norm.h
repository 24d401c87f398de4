// SPDX-License-Identifier: Apache-2.0
// sync_batch_norm: one batch norm over all replicas of a run instead of one for each replica's small batch.
#pragma once

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace torch::nn {
class Module;
}

#pragma GCC visibility push(default)

namespace lockstep {
namespace parallel {

/// Makes every lockstep::nn::BatchNorm below `root` compute its statistics over the group's ranks. Returns how many
/// layers it changed, which keep `owner`.
int sync_batch_norm(torch::nn::Module& root, ProcessGroup& group, GroupOwner owner = nullptr);

/// Returns the torch module inside a wrapper, holder or pointer.
template <class Model>
torch::nn::Module& torch_module_of(Model& model) {
  if constexpr (requires { model.module(); }) {
    return torch_module_of(model.module());
  } else {
    return tensor::module_of(model);
  }
}

}  // namespace parallel

/// Makes every lockstep::nn::BatchNorm in `model` compute its training statistics over the batches of all replicas: the
/// replicas of the running ReplicaTeam, else one per rank. The results have the same bits on any number of ranks, even
/// in backward. With one replica nothing changes.
///
/// Returns: the number of layers that were changed.
/// Lifetime: a ProcessGroup outlives the model's last training step; of a Job the layers keep a copy.
/// Throws:   UsageError if there is a torch::nn::BatchNorm, whose statistics cannot be reached; it names the first one.
/// Example:  lockstep::sync_batch_norm(net, job);
template <class Model>
int sync_batch_norm(Model& model, ProcessGroup& group) {
  return parallel::sync_batch_norm(parallel::torch_module_of(model), group);
}
/// The same for a wrapped or plain model and the job's group.
template <class Model, parallel::HasGroup Job>
int sync_batch_norm(Model& model, Job& job) {
  return parallel::sync_batch_norm(parallel::torch_module_of(model), static_cast<ProcessGroup&>(job.group()),
                                   parallel::owner_of(job));
}

}  // namespace lockstep

#pragma GCC visibility pop
