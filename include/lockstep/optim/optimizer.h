// SPDX-License-Identifier: Apache-2.0
// Optimizer: what a training loop needs of any optimizer, whole or sharded over ranks.
#pragma once

#include <cstdint>

#include "lockstep/optim/clip.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"
#include "lockstep/tensor/state_part.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Updates parameters from their gradients. Its state has, for each parameter, entries "<parameter>.<kind>" with no dot
/// in the kind, and others without a dot; tensors among them have the parameter's shape.
class Optimizer : public Stateful {
 public:
  /// Updates each parameter that has a gradient; the others stay as they are. `grad_scale` multiplies every gradient on
  /// the way in, so that clipping (clip.h) needs no pass of its own.
  virtual void step(double grad_scale = 1.0) = 0;

  /// Drops the gradients (autograd then hands its fresh tensor over instead of adding to zeros; a
  /// DistributedDataParallel keeps their memory), or writes zeros into them.
  virtual void zero_grad(bool set_to_none = true);

  virtual void set_lr(double lr) = 0;
  [[nodiscard]] virtual double lr() const = 0;
  /// How often step() was called.
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  [[nodiscard]] virtual const NamedTensors& parameters() const = 0;

  /// Whether each element is updated from its own values alone, so that any part of a parameter can be updated by
  /// itself.
  [[nodiscard]] virtual bool elementwise() const { return true; }

  /// The norm of all gradients, as lockstep::grad_norm().
  /// Collective: yes, where the optimizer is sharded.
  [[nodiscard]] virtual double grad_norm() { return lockstep::grad_norm(parameters()); }

  /// Makes state_dict() on rank 0 that of the whole run. To be called before it; does nothing where each rank has all
  /// of the state.
  /// Collective: yes, where the optimizer is sharded.
  virtual void consolidate_state_dict() {}

  /// What `rank` of `world_size` writes of a checkpoint that all ranks write. An optimizer that is sharded gives what
  /// it has. Collective: no.
  [[nodiscard]] virtual StatePart state_part(int rank, int world_size) const {
    return part_of(state_dict(), rank, world_size);
  }
};

}  // namespace lockstep

#pragma GCC visibility pop
