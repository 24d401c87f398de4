// SPDX-License-Identifier: Apache-2.0
// Multi-tensor helpers, and the fused operators of the libtorch versions that have them. The headers decide, not the
// version: libtorch installs a dispatch header for each device that an operator supports. CUDA-only operators (the
// first ones) are not used, because no test on a CPU could check the call.
#include "optim/foreach.h"

#include <ATen/ops/full.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#if __has_include(<ATen/ops/_foreach_clamp_max.h>) && __has_include(<ATen/ops/_foreach_clamp_min.h>)
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#define LOCKSTEP_HAS_FOREACH_CLAMP 1
#endif
#if __has_include(<ATen/ops/_foreach_copy.h>)
#include <ATen/ops/_foreach_copy.h>
#define LOCKSTEP_HAS_FOREACH_COPY 1
#endif
#if __has_include(<ATen/ops/_foreach_lerp.h>)
#include <ATen/ops/_foreach_lerp.h>
#define LOCKSTEP_HAS_FOREACH_LERP 1
#endif
#if __has_include(<ATen/ops/_foreach_sign.h>)
#include <ATen/ops/_foreach_sign.h>
#define LOCKSTEP_HAS_FOREACH_SIGN 1
#endif
#if __has_include(<ATen/ops/_fused_adam_cpu_dispatch.h>) && __has_include(<ATen/ops/_fused_adamw_cpu_dispatch.h>)
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#define LOCKSTEP_HAS_FUSED_ADAM 1
#endif
#if __has_include(<ATen/ops/_fused_sgd_cpu_dispatch.h>)
#include <ATen/ops/_fused_sgd.h>
#define LOCKSTEP_HAS_FUSED_SGD 1
#endif
#if __has_include(<ATen/ops/_fused_adagrad_cpu_dispatch.h>)
#include <ATen/ops/_fused_adagrad.h>
#define LOCKSTEP_HAS_FUSED_ADAGRAD 1
#endif

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

#if defined(LOCKSTEP_HAS_FUSED_ADAM) || defined(LOCKSTEP_HAS_FUSED_ADAGRAD)
/// Returns the step count on the parameters' device, one tensor for all parameters, filled there without a copy.
Tensors steps_of(const TensorLists& lists, std::int64_t step) {
  const at::Tensor count = at::full({}, static_cast<double>(step),
                                    lists.parameters.front().options().dtype(at::kFloat).requires_grad(false));
  return Tensors(lists.parameters.size(), count);
}
#endif

/// In libtorch 2.1 and later, a list of tensors can be multiplied by one tensor on their device.
template <class Factor>
concept ScalesLists = requires {
  static_cast<Tensors (*)(at::TensorList, const Factor&)>(&at::_foreach_mul);
  static_cast<void (*)(at::TensorList, const Factor&)>(&at::_foreach_mul_);
};

template <class Factor>
Tensors scaled_by(const Tensors& values, const Factor& factor) {
  if constexpr (ScalesLists<Factor>) {
    return static_cast<Tensors (*)(at::TensorList, const Factor&)>(&at::_foreach_mul)(values, factor);
  } else {
    Tensors scaled;
    scaled.reserve(values.size());
    for (const at::Tensor& value : values) scaled.push_back(value.mul(factor));
    return scaled;
  }
}

template <class Factor>
void scale_by(const Tensors& values, const Factor& factor) {
  if constexpr (ScalesLists<Factor>) {
    static_cast<void (*)(at::TensorList, const Factor&)> (&at::_foreach_mul_)(values, factor);
  } else {
    for (const at::Tensor& value : values) value.mul_(factor);
  }
}

[[noreturn, maybe_unused]] void throw_absent(const char* what) {
  throw InternalError(fmt::format("this libtorch has no fused {}", what));
}

}  // namespace

void blend_all(const Tensors& into, double a, const Tensors& values, double b) {
  at::_foreach_mul_(into, a);
  at::_foreach_add_(into, values, b);
}

Tensors scaled_all(const Tensors& values, const at::Tensor& factor) {
  return values.empty() ? values : scaled_by(values, factor.to(values.front().scalar_type()));
}

void scale_all_(const Tensors& values, const at::Tensor& factor) {
  if (!values.empty()) scale_by(values, factor.to(values.front().scalar_type()));
}

void clamp_all_(const Tensors& values, double most) {
#ifdef LOCKSTEP_HAS_FOREACH_CLAMP
  const bool together = !values.empty() && !values.front().is_cpu();
  if (together) {
    at::_foreach_clamp_max_(values, most);
    at::_foreach_clamp_min_(values, -most);
    return;
  }
#endif
  for (const at::Tensor& value : values) value.clamp_(-most, most);
}

void move_towards_all(const Tensors& averages, const Tensors& values, double share) {
  if (averages.empty()) return;
#ifdef LOCKSTEP_HAS_FOREACH_LERP
  at::_foreach_lerp_(averages, values, share);
#else
  blend_all(averages, 1 - share, values, share);
#endif
}

void copy_all(const Tensors& into, const Tensors& values) {
#ifdef LOCKSTEP_HAS_FOREACH_COPY
  if (!into.empty()) at::_foreach_copy_(into, values);
#else
  for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(values[i]);
#endif
}

Tensors regularised_all(const TensorLists& lists, double weight_decay) {
  if (weight_decay == 0) return lists.grads;
  return at::_foreach_add(lists.grads, lists.parameters, weight_decay);
}

void take_signs(const Tensors& values) {
#ifdef LOCKSTEP_HAS_FOREACH_SIGN
  at::_foreach_sign_(values);
#else
  for (const at::Tensor& value : values) value.sign_();
#endif
}

at::Tensor norms_of(const Tensors& values) { return at::stack(at::_foreach_norm(values)); }

at::Tensor where_both(const at::Tensor& norm, const at::Tensor& other, const at::Tensor& value) {
  return at::where(at::logical_and(norm.gt(0), other.gt(0)), value, at::ones_like(value));
}

#ifdef LOCKSTEP_HAS_FUSED_ADAM
FusedOn fused_adam() { return {.cpu = true, .cuda = true}; }

void run_fused_adam(const TensorLists& lists, const StepValues& now, const FusedAdam& adam) {
  const Tensors steps = steps_of(lists, now.step);
  const Tensors largest = adam.amsgrad ? lists.state[2] : Tensors();
  const auto run = [&](auto&& fused) {
    fused(lists.parameters, lists.grads, lists.state[0], lists.state[1], largest, steps, now.lr, adam.betas[0],
          adam.betas[1], now.weight_decay, adam.eps, adam.amsgrad, /*maximize=*/false);
  };
  if (adam.decoupled) {
    run([](const auto&... given) { at::_fused_adamw_(given...); });
  } else {
    run([](const auto&... given) { at::_fused_adam_(given...); });
  }
}
#else
FusedOn fused_adam() { return {}; }
void run_fused_adam(const TensorLists&, const StepValues&, const FusedAdam&) { throw_absent("Adam"); }
#endif

#ifdef LOCKSTEP_HAS_FUSED_SGD
FusedOn fused_sgd() { return {.cpu = true, .cuda = true}; }

void run_fused_sgd(const TensorLists& lists, const StepValues& now, const FusedSgd& sgd) {
  const Tensors buffers = lists.state.empty() ? Tensors() : lists.state[0];
  at::_fused_sgd_(lists.parameters, lists.grads, buffers, now.weight_decay, sgd.momentum, now.lr, sgd.dampening,
                  sgd.nesterov, /*maximize=*/false, /*is_first_step=*/now.step == 1 && !buffers.empty());
}
#else
FusedOn fused_sgd() { return {}; }
void run_fused_sgd(const TensorLists&, const StepValues&, const FusedSgd&) { throw_absent("SGD"); }
#endif

#ifdef LOCKSTEP_HAS_FUSED_ADAGRAD
FusedOn fused_adagrad() {
#if __has_include(<ATen/ops/_fused_adagrad_cuda_dispatch.h>)
  return {.cpu = true, .cuda = true};
#else
  return {.cpu = true};
#endif
}

void run_fused_adagrad(const TensorLists& lists, const StepValues& now, const FusedAdagrad& adagrad) {
  at::_fused_adagrad_(lists.parameters, lists.grads, lists.state[0], steps_of(lists, now.step), now.lr,
                      adagrad.lr_decay, now.weight_decay, adagrad.eps, /*maximize=*/false);
}
#else
FusedOn fused_adagrad() { return {}; }
void run_fused_adagrad(const TensorLists&, const StepValues&, const FusedAdagrad&) { throw_absent("Adagrad"); }
#endif

}  // namespace lockstep::optim
