// SPDX-License-Identifier: Apache-2.0
// The gradient norm, in an order that does not depend on the layout.
#include "lockstep/optim/clip.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "optim/foreach.h"
#include "optim/kernels.h"

namespace lockstep {
namespace {

template <class T>
std::vector<double> all_blocks(const at::Tensor& dense) {
  const T* values = dense.data_ptr<T>();
  std::vector<double> sums;
  for (std::int64_t begin = 0; begin < dense.numel(); begin += optim::kNormBlock) {
    sums.push_back(optim::block_squares(values + begin, std::min(optim::kNormBlock, dense.numel() - begin)));
  }
  return sums;
}

std::vector<at::Tensor> gradients_of(const NamedTensors& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& item : parameters) {
    if (item.second.grad().defined()) gradients.push_back(item.second.grad());
  }
  return gradients;
}

}  // namespace

namespace optim {

// Lanes are summed separately and then combined, so the compiler may use vectors without choosing the order itself.
double block_squares(const double* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane] * values[i + lane];
  }
  for (; i < count; ++i) lanes[i % kLanes] += values[i] * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// sum_of_squares() uses the same lanes.
double block_squares(const float* values, std::int64_t count) { return sum_of_squares(values, count); }

double block_squares(const at::Tensor& block) {
  if (block.scalar_type() == at::kDouble) return block_squares(block.data_ptr<double>(), block.numel());
  return block_squares(block.data_ptr<float>(), block.numel());
}

double norm_of_blocks(const std::vector<std::vector<double>>& by_parameter) {
  double sum = 0;
  for (const std::vector<double>& blocks : by_parameter) {
    double of_parameter = 0;
    for (const double block : blocks) of_parameter += block;
    sum += of_parameter;
  }
  return std::sqrt(sum);
}

bool on_one_gpu(const NamedTensors& parameters) {
  return !parameters.empty() && std::all_of(parameters.begin(), parameters.end(), [&](const auto& item) {
    const at::Tensor& grad = item.second.grad();
    return item.second.is_cuda() && item.second.device() == parameters.front().second.device() &&
           !(grad.defined() && grad.is_sparse());
  });
}

at::Tensor device_norms(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  return gradients.empty() ? at::zeros({0}, parameters.front().second.options()) : norms_of(gradients);
}

at::Tensor norm_of_norms(const at::Tensor& norms) {
  return at::linalg_vector_norm(norms, 2, at::OptionalIntArrayRef(), false, at::kDouble);
}

at::Tensor in_norm_order(const at::Tensor& parameter, const at::Tensor& grad) {
  const bool wide = grad.scalar_type() == at::kDouble || grad.scalar_type() == at::kFloat;
  const at::Tensor held = grad.is_sparse() ? grad.coalesce()._values() : grad;
  const at::Tensor values = wide ? held.cpu() : held.cpu().to(at::kFloat);
  if (grad.is_sparse()) return values.contiguous();
  if (!parameter.is_non_overlapping_and_dense()) return values.contiguous();
  if (values.strides() == parameter.strides()) return values;
  return at::empty_strided(parameter.sizes(), parameter.strides(), values.options()).copy_(values);
}

}  // namespace optim

double grad_norm(NamedTensors parameters) {
  const at::NoGradGuard no_grad;
  if (optim::on_one_gpu(parameters)) {
    return optim::norm_of_norms(optim::device_norms(parameters)).item<double>();
  }
  std::sort(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::vector<double>> sums;
  for (const auto& item : parameters) {
    if (!item.second.grad().defined()) continue;
    const at::Tensor grad = optim::in_norm_order(item.second, item.second.grad());
    sums.push_back(grad.scalar_type() == at::kDouble ? all_blocks<double>(grad) : all_blocks<float>(grad));
  }
  return optim::norm_of_blocks(sums);
}

double clip_factor(double norm, double max_norm) {
  if (!(max_norm > 0)) throw UsageError(fmt::format("the clipping norm is {}, which is not > 0", max_norm));
  if (!std::isfinite(norm)) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

at::Tensor clip_factor(const at::Tensor& norm, double max_norm) {
  (void)clip_factor(0.0, max_norm);  // throws for an invalid maximum
  return (max_norm / (norm + 1e-6)).clamp_max_(1.0);
}

double clip_grad_norm(const NamedTensors& parameters, double max_norm) {
  if (optim::on_one_gpu(parameters)) {
    const at::NoGradGuard no_grad;
    const at::Tensor norm = optim::norm_of_norms(optim::device_norms(parameters));
    optim::scale_all_(gradients_of(parameters), clip_factor(norm, max_norm));
    return norm.item<double>();
  }
  const double norm = grad_norm(parameters);
  const double factor = clip_factor(norm, max_norm);
  if (factor < 1.0) {
    const at::NoGradGuard no_grad;
    for (const auto& item : parameters) {
      if (item.second.grad().defined()) item.second.grad().mul_(factor);
    }
  }
  return norm;
}

void clip_grad_value(const std::vector<at::Tensor>& gradients, double max_value) {
  if (!(max_value > 0)) throw UsageError(fmt::format("the clipping value is {}, which is not > 0", max_value));
  const at::NoGradGuard no_grad;
  optim::clamp_all_(gradients, max_value);
}

void clip_grad_value(const NamedTensors& parameters, double max_value) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& gradient : gradients_of(parameters)) {
    if (gradient.is_sparse() && !gradient.is_coalesced()) gradient.copy_(gradient.coalesce());
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  clip_grad_value(values, max_value);
}

}  // namespace lockstep
