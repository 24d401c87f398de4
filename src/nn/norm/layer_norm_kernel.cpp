// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/norm/layer_norm_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "nn/norm/layer_norm_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

template <class T>
HWY_INLINE float mean_of(const T* x, std::int64_t width) {
  const Floats d;
  auto sum = hn::Zero(d);
  for_span(0, width,
           [&](auto tag, std::int64_t i, auto memory) HWY_ATTR { sum = hn::Add(sum, memory.get(tag, x + i)); });
  return sum_of(d, sum) / static_cast<float>(width);
}

template <class T>
HWY_INLINE float variance_of(const T* x, std::int64_t width, float mean) {
  const Floats d;
  auto squares = hn::Zero(d);
  for_span(0, width, [&](auto tag, std::int64_t i, auto memory) HWY_ATTR {
    const auto v = memory.only(tag, hn::Sub(memory.get(tag, x + i), hn::Set(tag, mean)));
    squares = hn::MulAdd(v, v, squares);
  });
  return sum_of(d, squares) / static_cast<float>(width);
}

template <class T>
void forward(const LayerNormPass& pass, LayerNormRows rows, double eps, T* out) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = static_cast<const T*>(pass.x) + row * pass.width;
    const float mean = mean_of(x, pass.width);
    const double variance = static_cast<double>(variance_of(x, pass.width, mean));
    const auto inverse = static_cast<float>(1 / std::sqrt(variance + eps));
    pass.mean[row] = mean;
    pass.inverse[row] = inverse;
    for_span(0, pass.width, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(memory.get(d, x + i), hn::Set(d, mean)), hn::Set(d, inverse));
      memory.put(hn::MulAdd(normal, memory.get(d, pass.weight + i), memory.get(d, pass.bias + i)), d,
                 out + row * pass.width + i);
    });
  }
}

/// One row in backward.
template <class T>
struct Row {
  const T* x;
  const T* grad;
  float mean;
  float inverse;

  HWY_INLINE hn::Vec<Floats> normal(Floats d, hn::Vec<Floats> at) const {
    return hn::Mul(hn::Sub(at, hn::Set(d, mean)), hn::Set(d, inverse));
  }
};

/// Means over a row: of grad * weight, and of grad * weight * x^.
struct RowMeans {
  float plain;
  float times_normal;
};

/// Computes the means of a row, and adds the row to the sums by column.
template <class T>
HWY_INLINE RowMeans row_means(const LayerNormPass& pass, const Row<T>& row, float* sums) {
  const Floats d;
  auto plain = hn::Zero(d);
  auto times_normal = hn::Zero(d);
  for_span(0, pass.width, [&](auto tag, std::int64_t i, auto memory) HWY_ATTR {
    const auto normal = row.normal(tag, memory.get(tag, row.x + i));
    const auto g = memory.get(tag, row.grad + i);
    const auto weighted = hn::Mul(g, memory.get(tag, pass.weight + i));
    plain = hn::Add(plain, weighted);
    times_normal = hn::MulAdd(weighted, normal, times_normal);
    add_to(hn::Mul(g, normal), tag, sums + i);
    add_to(g, tag, sums + padded(pass.width) + i);
  });
  const auto width = static_cast<float>(pass.width);
  return {sum_of(d, plain) / width, sum_of(d, times_normal) / width};
}

template <class T>
void backward(const LayerNormPass& pass, LayerNormRows rows, const T* grad, T* grad_in, float* sums) {
  std::fill(sums, sums + 2 * padded(pass.width), 0.0F);
  for (std::int64_t at = rows.begin; at < rows.end; ++at) {
    const Row<T> row{static_cast<const T*>(pass.x) + at * pass.width, grad + at * pass.width, pass.mean[at],
                     pass.inverse[at]};
    const RowMeans means = row_means(pass, row, sums);
    for_span(0, pass.width, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
      const auto weighted = hn::Mul(memory.get(d, row.grad + i), memory.get(d, pass.weight + i));
      const auto normal = row.normal(d, memory.get(d, row.x + i));
      const auto centred = hn::Sub(weighted, hn::Set(d, means.plain));
      const auto rest = hn::NegMulAdd(normal, hn::Set(d, means.times_normal), centred);
      memory.put(hn::Mul(rest, hn::Set(d, row.inverse)), d, grad_in + at * pass.width + i);
    });
  }
}

void forward_of(const LayerNormPass& pass, LayerNormRows rows, double eps, void* out) {
  if (pass.type == ElementType::kFloat) return forward(pass, rows, eps, static_cast<float*>(out));
  forward(pass, rows, eps, static_cast<std::uint16_t*>(out));
}

void backward_of(const LayerNormPass& pass, LayerNormRows rows, const void* grad, void* grad_in, float* sums) {
  if (pass.type == ElementType::kFloat) {
    return backward(pass, rows, static_cast<const float*>(grad), static_cast<float*>(grad_in), sums);
  }
  backward(pass, rows, static_cast<const std::uint16_t*>(grad), static_cast<std::uint16_t*>(grad_in), sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(forward_of);
HWY_EXPORT(backward_of);

void layer_norm_forward(const LayerNormPass& pass, LayerNormRows rows, double eps, void* out) {
  HWY_DYNAMIC_DISPATCH(forward_of)(pass, rows, eps, out);
}

void layer_norm_backward(const LayerNormPass& pass, LayerNormRows rows, const void* grad, void* grad_in, float* sums) {
  HWY_DYNAMIC_DISPATCH(backward_of)(pass, rows, grad, grad_in, sums);
}

}  // namespace lockstep::nn
#endif
