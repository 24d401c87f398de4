// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/dense/activation_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>

#include "nn/dense/activation_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

HWY_INLINE hn::Vec<Floats> factor(Floats d, const KeptBits& kept_bits, std::int64_t index) {
  return hn::IfThenElseZero(kept(d, kept_bits.bits, index), hn::Set(d, kept_bits.scale));
}

template <class T>
void dropout(const T* in, T* out, Span span, const KeptBits& kept_bits) {
  for_span(span.begin, span.end, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
    memory.put(hn::Mul(memory.get(d, in + i), factor(d, kept_bits, i)), d, out + i);
  });
}

/// Sets the bits of the elements starting at `index`; earlier bits of the same byte are already written.
HWY_INLINE void put_bits(Floats d, hn::Mask<Floats> mask, std::uint8_t* bits, std::int64_t index) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  const std::size_t count = (hn::Lanes(d) + 7) / 8;
  if (index % 8 == 0) {
    std::memcpy(bits + index / 8, bytes, count);
  } else {
    bits[index / 8] = static_cast<std::uint8_t>(bits[index / 8] | (bytes[0] << (index % 8)));
  }
}

template <class T>
void relu_of(const T* in, T* out, std::uint8_t* bits, Span span) {
  for_span(span.begin, span.end, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
    const auto x = memory.get(d, in + i);
    memory.put(relu(d, x), d, out + i);
    put_bits(d, hn::Not(hn::Le(x, hn::Zero(d))), bits, i);
  });
}

/// Returns `grad` if the result lets it pass, else 0.
HWY_INLINE hn::Vec<Floats> open(Floats d, hn::Vec<Floats> out, hn::Vec<Floats> grad) {
  return hn::IfThenZeroElse(hn::Le(out, hn::Zero(d)), grad);
}

template <class T>
void relu_backward(const T* grad, const std::uint8_t* bits, T* grad_in, Span span) {
  for_span(span.begin, span.end, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
    memory.put(hn::IfThenElseZero(kept(d, bits, i), memory.get(d, grad + i)), d, grad_in + i);
  });
}

template <bool kDropout, class T>
void bias_relu(T* values, const Rows& rows, const float* bias, const KeptBits& kept_bits) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t first = row * rows.channels;
    for_span(0, rows.channels, [&](auto d, std::int64_t c, auto memory) HWY_ATTR {
      T* at = values + first + c;
      auto z = relu(d, hn::Add(memory.get(d, at), memory.get(d, bias + c)));
      if constexpr (kDropout) z = hn::Mul(z, factor(d, kept_bits, first + c));
      memory.put(z, d, at);
    });
  }
}

template <class T>
void bias_relu_backward(const BiasReluBackward& pass, const Rows& rows, float* sums) {
  std::fill(sums, sums + padded(rows.channels), 0.0F);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t first = row * rows.channels;
    for_span(0, rows.channels, [&](auto d, std::int64_t c, auto memory) HWY_ATTR {
      const auto out = memory.get(d, static_cast<const T*>(pass.out) + first + c);
      const auto grad = memory.get(d, static_cast<const T*>(pass.grad) + first + c);
      const auto g = hn::Mul(open(d, out, grad), hn::Set(d, pass.scale));
      memory.put(g, d, static_cast<T*>(pass.grad_in) + first + c);
      add_to(g, d, sums + c);
    });
  }
}

void dropout_of(ElementType type, const void* in, void* out, Span span, const KeptBits& kept_bits) {
  if (type == ElementType::kFloat)
    return dropout(static_cast<const float*>(in), static_cast<float*>(out), span, kept_bits);
  dropout(static_cast<const std::uint16_t*>(in), static_cast<std::uint16_t*>(out), span, kept_bits);
}

void relu_any(ElementType type, const void* in, void* out, std::uint8_t* bits, Span span) {
  if (type == ElementType::kFloat) return relu_of(static_cast<const float*>(in), static_cast<float*>(out), bits, span);
  relu_of(static_cast<const std::uint16_t*>(in), static_cast<std::uint16_t*>(out), bits, span);
}

void relu_backward_of(ElementType type, const void* grad, const std::uint8_t* bits, void* grad_in, Span span) {
  if (type == ElementType::kFloat) {
    return relu_backward(static_cast<const float*>(grad), bits, static_cast<float*>(grad_in), span);
  }
  relu_backward(static_cast<const std::uint16_t*>(grad), bits, static_cast<std::uint16_t*>(grad_in), span);
}

template <class T>
void bias_relu_any(T* values, const Rows& rows, const float* bias, const KeptBits& kept_bits) {
  kept_bits.bits == nullptr ? bias_relu<false>(values, rows, bias, kept_bits)
                            : bias_relu<true>(values, rows, bias, kept_bits);
}

void bias_relu_of(ElementType type, void* values, const Rows& rows, const float* bias, const KeptBits& kept_bits) {
  if (type == ElementType::kFloat) return bias_relu_any(static_cast<float*>(values), rows, bias, kept_bits);
  bias_relu_any(static_cast<std::uint16_t*>(values), rows, bias, kept_bits);
}

void bias_relu_backward_of(const BiasReluBackward& pass, const Rows& rows, float* sums) {
  if (pass.type == ElementType::kFloat) return bias_relu_backward<float>(pass, rows, sums);
  bias_relu_backward<std::uint16_t>(pass, rows, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(dropout_of);
HWY_EXPORT(relu_any);
HWY_EXPORT(relu_backward_of);
HWY_EXPORT(bias_relu_of);
HWY_EXPORT(bias_relu_backward_of);

void dropout_pass(ElementType type, const void* in, void* out, Span span, const KeptBits& kept) {
  HWY_DYNAMIC_DISPATCH(dropout_of)(type, in, out, span, kept);
}

void relu_pass(ElementType type, const void* in, void* out, std::uint8_t* bits, Span span) {
  HWY_DYNAMIC_DISPATCH(relu_any)(type, in, out, bits, span);
}

void relu_backward_pass(ElementType type, const void* grad, const std::uint8_t* bits, void* grad_in, Span span) {
  HWY_DYNAMIC_DISPATCH(relu_backward_of)(type, grad, bits, grad_in, span);
}

void bias_relu_pass(ElementType type, void* values, const Rows& rows, const float* bias, const KeptBits& kept) {
  HWY_DYNAMIC_DISPATCH(bias_relu_of)(type, values, rows, bias, kept);
}

void bias_relu_backward_pass(const BiasReluBackward& pass, const Rows& rows, float* sums_padded) {
  HWY_DYNAMIC_DISPATCH(bias_relu_backward_of)(pass, rows, sums_padded);
}

}  // namespace lockstep::nn
#endif
