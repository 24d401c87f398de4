// SPDX-License-Identifier: Apache-2.0
// Optimizer: the interface of optimizers, whole or sharded across ranks.
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

/// Sums modulo 2^64 of a hash of each element and its index (docs/formats/digests.md). Equal bits give equal sums, for
/// any number of threads, memory layout and partition. A different bit or a swap of two elements gives different sums.
struct UpdateDigest {
  std::uint64_t gradients = 0;  ///< digest of the reduced gradients, before grad_scale
  std::uint64_t weights = 0;    ///< digest of the weights after the update, including parameters without a gradient

  bool operator==(const UpdateDigest&) const = default;
};

/// Updates parameters from their gradients. For each parameter the state has entries "<parameter>.<kind>" with no dot
/// in the kind; entries that are tensors have the parameter's shape. The names of other entries have no dot.
class Optimizer : public Stateful {
 public:
  /// Updates each parameter that has a gradient. Every gradient is multiplied by `grad_scale` as it is read, so that
  /// clipping (clip.h) needs no extra pass. For autograd an update is a change in place: a later backward throws
  /// c10::Error if it needs the values from before.
  virtual void step(double grad_scale = 1.0) = 0;

  /// The same with a scalar tensor as the factor. If the factor and all parameters are on one GPU, the host does not
  /// wait; else the host reads the factor.
  virtual void step_scaled_by(const at::Tensor& grad_scale);

  /// Drops the gradients, or sets them to zero. After dropping, autograd stores its new tensor instead of adding to
  /// zeros; a DistributedDataParallel keeps the memory.
  virtual void zero_grad(bool set_to_none = true);

  /// Sets the learning rate for the following steps. Groups with their own rate keep their ratio to this rate.
  virtual void set_lr(double lr) = 0;
  /// Returns the learning rate.
  [[nodiscard]] virtual double lr() const = 0;
  /// Returns the number of calls to step().
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  /// Returns the parameters that the optimizer updates, by name.
  [[nodiscard]] virtual const NamedTensors& parameters() const = 0;

  /// Returns true if each element is updated only from its own values, so that parts can be updated separately.
  [[nodiscard]] virtual bool elementwise() const { return true; }

  /// Returns the norm of all gradients, as lockstep::grad_norm() does.
  /// Collective: yes, if the optimizer is sharded.
  [[nodiscard]] virtual double grad_norm() { return lockstep::grad_norm(parameters()); }

  /// Makes each later step() compute digests of the gradients and weights. `begins` holds, for each part of a
  /// parameter, the index of its first element in the whole; empty: all parameters are whole.
  virtual void digest_updates(const std::vector<std::int64_t>& begins = {});
  /// Returns the digest of the last step(); before the first step, the digest of the weights when digest_updates() was
  /// called. A sharded optimizer returns its part's digest; the whole digest is the sum over all ranks. Returns none if
  /// digests are off.
  /// Blocks: if parameters are on a GPU, until the GPU has computed them.
  [[nodiscard]] virtual std::optional<UpdateDigest> update_digest() const { return std::nullopt; }

  /// Gathers the whole state on rank 0, so that state_dict() returns it there; call it before state_dict(). It does
  /// nothing if each rank has the whole state.
  /// Collective: yes, if the optimizer is sharded.
  virtual void consolidate_state_dict() {}

  /// Returns the part of the state that `rank` of `world_size` writes to a sharded checkpoint. A sharded optimizer
  /// returns its own part. Collective: no.
  [[nodiscard]] virtual StatePart state_part(int rank, int world_size) const {
    return part_of(state_dict(), rank, world_size);
  }
};

}  // namespace lockstep

#pragma GCC visibility pop
