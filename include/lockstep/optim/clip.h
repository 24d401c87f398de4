// SPDX-License-Identifier: Apache-2.0
// Gradient clipping: by the norm over all parameters, or element by element.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep {
namespace optim {

/// The parts of grad_norm(), for an optimizer that has the gradients in pieces.
inline constexpr std::int64_t kNormBlock = 4096;
/// The sum of squares of one block: up to kNormBlock elements that follow each other in memory.
/// Shapes: one dimension, contiguous, float32 or float64, on the CPU.
[[nodiscard]] double block_squares(const at::Tensor& block);
[[nodiscard]] double block_squares(const float* values, std::int64_t count);
[[nodiscard]] double block_squares(const double* values, std::int64_t count);
/// The norm, from the sums of all blocks of each parameter, parameters in name order.
[[nodiscard]] double norm_of_blocks(const std::vector<std::vector<double>>& by_parameter);
/// A gradient as it is summed: with the parameter's memory order, on the CPU, in float32 or float64.
[[nodiscard]] at::Tensor in_norm_order(const at::Tensor& parameter, const at::Tensor& grad);

/// The norm in whatever order the gradients' device adds; one number comes back from it.
/// Shapes: gradients on one device.
[[nodiscard]] double device_norm(const NamedTensors& parameters);

}  // namespace optim

/// The 2-norm of all gradients: sums in double over fixed blocks of 4,096 elements of each parameter's memory, combined
/// in name order, so that it depends neither on buckets nor on threads. Parameters without a gradient count as zero.
/// Where all lie on one GPU it computes the norm in its own order, and the host waits for one number.
[[nodiscard]] double grad_norm(NamedTensors parameters);

/// What gradients of norm `norm` are multiplied with to be clipped to `max_norm`: as PyTorch, min(1, max / (norm +
/// 1e-6)). A norm that is not finite gives 1: the caller decides what to do about it. Throws: UsageError unless
/// max_norm > 0.
[[nodiscard]] double clip_factor(double norm, double max_norm);

/// Scales all gradients in place so that their norm is at most `max_norm`; returns the norm before. Without that pass:
/// optimizer.step(clip_factor(grad_norm(parameters), max_norm)).
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

/// Puts every element of the gradients between -max_value and max_value, in place. NaN stays.
/// Throws: UsageError unless max_value > 0.
void clip_grad_value(const std::vector<at::Tensor>& gradients, double max_value);
void clip_grad_value(const NamedTensors& parameters, double max_value);

/// clip_grad_norm() for a module, its holder or pointer, or a DistributedDataParallel (after backward, on every rank
/// the same).
template <class Model>
requires(!std::is_same_v<std::remove_const_t<Model>, NamedTensors>) double clip_grad_norm(Model& model,
                                                                                          double max_norm) {
  return clip_grad_norm(named_parameters_of(model), max_norm);
}

template <class Model>
requires(!std::is_same_v<std::remove_const_t<Model>, NamedTensors> &&
         !std::is_same_v<std::remove_const_t<Model>, std::vector<at::Tensor>>) void clip_grad_value(Model& model,
                                                                                                    double max_value) {
  clip_grad_value(named_parameters_of(model), max_value);
}

}  // namespace lockstep

#pragma GCC visibility pop
