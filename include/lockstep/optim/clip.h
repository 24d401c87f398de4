// SPDX-License-Identifier: Apache-2.0
// Gradient clipping by the norm over all parameters.
#pragma once

#include <type_traits>

#include "lockstep/tensor/named_tensors.h"

namespace lockstep {

/// The 2-norm of all gradients: sums in double over fixed blocks of 4,096 elements of each parameter's memory, combined
/// in name order, so that it depends neither on buckets nor on threads. Parameters without a gradient count as zero.
[[nodiscard]] double grad_norm(NamedTensors parameters);

/// What gradients of norm `norm` are multiplied with to be clipped to `max_norm`: as PyTorch, min(1, max / (norm +
/// 1e-6)). A norm that is not finite gives 1: the caller decides what to do about it. Throws: UsageError unless
/// max_norm > 0.
[[nodiscard]] double clip_factor(double norm, double max_norm);

/// Scales all gradients in place so that their norm is at most `max_norm`; returns the norm before. Without that pass:
/// optimizer.step(clip_factor(grad_norm(parameters), max_norm)).
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

/// The same for a module, its holder or pointer, or a DistributedDataParallel (after backward, on every rank the same).
template <class Model>
requires(!std::is_same_v<std::remove_const_t<Model>, NamedTensors>) double clip_grad_norm(Model& model,
                                                                                          double max_norm) {
  return clip_grad_norm(named_parameters_of(model), max_norm);
}

}  // namespace lockstep
