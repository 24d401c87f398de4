// SPDX-License-Identifier: Apache-2.0
// Wraps libtorch's multi-tensor operators, and replaces operators that this version of libtorch lacks.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_abs.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_maximum.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>

#include <cstdint>
#include <vector>

#include "optim/rule.h"

namespace lockstep::optim {

using Tensors = std::vector<at::Tensor>;

/// Sets into = a * into + b * values.
void blend_all(const Tensors& into, double a, const Tensors& values, double b);
/// Returns each of `values` times a scalar on their device, so that the host does not wait.
[[nodiscard]] Tensors scaled_all(const Tensors& values, const at::Tensor& factor);
/// Multiplies each of `values` by `factor` in place.
void scale_all_(const Tensors& values, const at::Tensor& factor);
/// Clamps each element to -most .. most in place; NaN stays NaN.
void clamp_all_(const Tensors& values, double most);
/// Sets each of `averages` to average + share * (value - average).
void move_towards_all(const Tensors& averages, const Tensors& values, double share);
/// Copies each of `values` into its counterpart in `into`.
void copy_all(const Tensors& into, const Tensors& values);
/// Returns grads + weight_decay * parameters; without weight decay the tensors of `grads` themselves.
[[nodiscard]] Tensors regularised_all(const TensorLists& lists, double weight_decay);
/// Replaces each element by its sign.
void take_signs(const Tensors& values);
/// Returns the norm of each tensor, as one tensor on their device, so that the host does not wait.
[[nodiscard]] at::Tensor norms_of(const Tensors& values);
/// Returns `value` if both norms are above zero, else 1.
[[nodiscard]] at::Tensor where_both(const at::Tensor& norm, const at::Tensor& other, const at::Tensor& value);

/// The devices for which this libtorch has a fused operator.
struct FusedOn {
  bool cpu = false;
  bool cuda = false;
  [[nodiscard]] bool on(c10::DeviceType device) const { return device == c10::kCUDA ? cuda : cpu; }
};

/// The options of a fused step of Adam or AdamW. State: exp_avg, exp_avg_sq; with amsgrad also max_exp_avg_sq.
struct FusedAdam {
  std::array<double, 2> betas;
  double eps;
  bool amsgrad;
  bool decoupled;  ///< true: AdamW
};
[[nodiscard]] FusedOn fused_adam();
void run_fused_adam(const TensorLists& lists, const StepValues& now, const FusedAdam& adam);

/// The options of a fused step of SGD. State: momentum_buffer, or none.
struct FusedSgd {
  double momentum;
  double dampening;
  bool nesterov;
};
[[nodiscard]] FusedOn fused_sgd();
void run_fused_sgd(const TensorLists& lists, const StepValues& now, const FusedSgd& sgd);

/// The options of a fused step of Adagrad. State: sum.
struct FusedAdagrad {
  double lr_decay;
  double eps;
};
[[nodiscard]] FusedOn fused_adagrad();
void run_fused_adagrad(const TensorLists& lists, const StepValues& now, const FusedAdagrad& adagrad);

}  // namespace lockstep::optim
