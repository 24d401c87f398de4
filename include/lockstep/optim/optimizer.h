// SPDX-License-Identifier: Apache-2.0
// Optimizer: the interface of an optimizer for a training loop, whole or sharded over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/optim/clip.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"
#include "lockstep/tensor/state_part.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Sums modulo 2^64 of a hash of each element and its place (docs/formats/digests.md). Equal bits give equal sums,
/// whatever threads, parts or memory they are in; a different bit, or a swap of two elements, gives different sums.
struct UpdateDigest {
  std::uint64_t gradients = 0;  ///< as they were reduced, before grad_scale
  std::uint64_t weights = 0;    ///< after the update, also of parameters without a gradient

  bool operator==(const UpdateDigest&) const = default;
};

/// Updates parameters from their gradients. For each parameter the state has entries "<parameter>.<kind>" with no dot
/// in the kind; tensors among them have the parameter's shape. Other entries have no dot in their names.
class Optimizer : public Stateful {
 public:
  /// Updates each parameter that has a gradient; the others stay as they are. `grad_scale` multiplies every gradient as
  /// it is read, so that clipping (clip.h) needs no extra pass.
  virtual void step(double grad_scale = 1.0) = 0;

  /// Does the same with a factor that is a number on the gradients' device. If all parameters are on one GPU too, the
  /// host does not wait for it; else the host reads it.
  virtual void step_scaled_by(const at::Tensor& grad_scale);

  /// Drops the gradients, or sets them to zero. After dropping, autograd passes its new tensor on instead of adding to
  /// zeros; a DistributedDataParallel keeps the memory.
  virtual void zero_grad(bool set_to_none = true);

  /// Sets the learning rate of the next steps. Groups with their own rate keep its ratio to it.
  virtual void set_lr(double lr) = 0;
  /// Returns the learning rate.
  [[nodiscard]] virtual double lr() const = 0;
  /// Returns the number of calls of step().
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  /// Returns the parameters that the optimizer updates, by name.
  [[nodiscard]] virtual const NamedTensors& parameters() const = 0;

  /// Returns true if each element is updated from its own values alone: any part of a parameter can be updated
  /// separately.
  [[nodiscard]] virtual bool elementwise() const { return true; }

  /// Returns the norm of all gradients, as lockstep::grad_norm().
  /// Collective: yes, if the optimizer is sharded.
  [[nodiscard]] virtual double grad_norm() { return lockstep::grad_norm(parameters()); }

  /// Makes each later step() digest the gradients and weights. `begins` has, for each parameter, the index of its first
  /// element in the whole parameter; empty: all parameters are whole.
  virtual void digest_updates(const std::vector<std::int64_t>& begins = {});
  /// Returns the digest of the last step(); before the first one, that of the weights at digest_updates(). A sharded
  /// optimizer returns that of its part: the sums of all ranks add up to the whole's. None: there are no digests.
  /// Blocks: if parameters are on a GPU, until it has computed them.
  [[nodiscard]] virtual std::optional<UpdateDigest> update_digest() const { return std::nullopt; }

  /// Makes state_dict() on rank 0 return the state of the whole run; call it before state_dict(). It does nothing if
  /// each rank has the whole state.
  /// Collective: yes, if the optimizer is sharded.
  virtual void consolidate_state_dict() {}

  /// Returns the part that `rank` of `world_size` writes to a checkpoint that all ranks write. A sharded optimizer
  /// returns its own part. Collective: no.
  [[nodiscard]] virtual StatePart state_part(int rank, int world_size) const {
    return part_of(state_dict(), rank, world_size);
  }
};

}  // namespace lockstep

#pragma GCC visibility pop
