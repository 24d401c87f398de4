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

/// The number of elements in a block of grad_norm(). The functions up to norm_of_norms() are its building blocks, for
/// an optimizer that holds gradients in pieces.
inline constexpr std::int64_t kNormBlock = 4096;
/// Returns the sum of squares of a block of up to kNormBlock elements that are adjacent in memory.
/// Shapes: one dimension, contiguous, float32 or float64, on the CPU.
[[nodiscard]] double block_squares(const at::Tensor& block);
/// Returns the sum of the squares of `count` adjacent values.
[[nodiscard]] double block_squares(const float* values, std::int64_t count);
/// Returns the sum of the squares of `count` adjacent values in float64.
[[nodiscard]] double block_squares(const double* values, std::int64_t count);
/// Returns the norm from the block sums of each parameter, with the parameters in name order.
[[nodiscard]] double norm_of_blocks(const std::vector<std::vector<double>>& by_parameter);
/// Returns a gradient in the form used for sums: in the parameter's memory order, on the CPU, in float32 or float64.
/// Of a sparse gradient, returns the values of its coalesced rows.
[[nodiscard]] at::Tensor in_norm_order(const at::Tensor& parameter, const at::Tensor& grad);

/// Returns true if there are parameters, all are on one GPU, and no gradient is sparse.
[[nodiscard]] bool on_one_gpu(const NamedTensors& parameters);
/// Returns the norm of each existing gradient, summed in the device's own order. The host does not wait.
/// Shapes: all gradients are on one device; the result is [number of gradients], on that device.
[[nodiscard]] at::Tensor device_norms(const NamedTensors& parameters);
/// Returns the norm of all gradients from the result of device_norms(): a float64 scalar on the same device.
[[nodiscard]] at::Tensor norm_of_norms(const at::Tensor& norms);

}  // namespace optim

/// Returns the 2-norm of all gradients. It sums squares in double over fixed blocks of 4,096 elements of each
/// parameter's memory and combines the blocks in name order, so the result depends neither on buckets nor on threads. A
/// missing gradient counts as zero. If all gradients are on one GPU, the GPU sums in its own order, and the host waits
/// once.
[[nodiscard]] double grad_norm(NamedTensors parameters);

/// Returns the factor that clips gradients of norm `norm` to `max_norm`: min(1, max_norm / (norm + 1e-6)), as in
/// PyTorch. A non-finite norm gives 1; the caller decides what to do. Throws: UsageError unless max_norm > 0.
[[nodiscard]] double clip_factor(double norm, double max_norm);
/// The same for a norm on a device, without waiting; an infinite norm gives 0, and NaN gives NaN, as in PyTorch.
[[nodiscard]] at::Tensor clip_factor(const at::Tensor& norm, double max_norm);

/// Scales all gradients in place so that their norm is at most `max_norm`; returns the norm before scaling.
/// optimizer.step(clip_factor(grad_norm(parameters), max_norm)) does the same without a pass over the gradients. On a
/// GPU the host waits once, for the norm.
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

/// Clamps every element of the gradients to -max_value .. max_value, in place. NaN stays NaN.
/// Throws: UsageError unless max_value > 0.
void clip_grad_value(const std::vector<at::Tensor>& gradients, double max_value);
/// Clamps every element of the gradients of `parameters` to -max_value .. max_value, in place.
void clip_grad_value(const NamedTensors& parameters, double max_value);

/// Clips the gradients of a module, its holder or pointer, or a DistributedDataParallel; for use after backward on
/// every rank.
template <class Model>
requires(!std::is_same_v<std::remove_const_t<Model>, NamedTensors>) double clip_grad_norm(Model& model,
                                                                                          double max_norm) {
  return clip_grad_norm(named_parameters_of(model), max_norm);
}

/// Calls clip_grad_value() for the parameters of a model.
template <class Model>
requires(!std::is_same_v<std::remove_const_t<Model>, NamedTensors> &&
         !std::is_same_v<std::remove_const_t<Model>, std::vector<at::Tensor>>) void clip_grad_value(Model& model,
                                                                                                    double max_value) {
  clip_grad_value(named_parameters_of(model), max_value);
}

}  // namespace lockstep

#pragma GCC visibility pop
