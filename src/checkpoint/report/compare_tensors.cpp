// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/report/compare_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
BitsOf<T> bits_of(const T& value) {
  BitsOf<T> bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t distance(std::int64_t x, std::int64_t y) {
  const auto larger = static_cast<std::uint64_t>(std::max(x, y));
  return larger - static_cast<std::uint64_t>(std::min(x, y));  // modulo 2^64, where it always fits
}

/// Returns the position of a finite float among all of its type: neighbours differ by 1, and -0 and 0 are equal.
template <class T>
std::int64_t place_of(const T& value) {
  constexpr BitsOf<T> kMagnitude = std::numeric_limits<BitsOf<T>>::max() >> 1U;
  const BitsOf<T> bits = bits_of(value);
  const auto magnitude = static_cast<std::int64_t>(bits & kMagnitude);
  return bits > kMagnitude ? -magnitude : magnitude;
}

template <class T>
void measure_pair(const T& x, const T& y, TensorDifference& out) {
  if constexpr (std::is_integral_v<T>) {
    out.largest_absolute =
        std::max(out.largest_absolute,
                 static_cast<double>(distance(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y))));
  } else {
    const auto wide_x = static_cast<double>(x);
    const auto wide_y = static_cast<double>(y);
    if (!std::isfinite(wide_x) || !std::isfinite(wide_y)) {
      ++out.non_finite;
      return;
    }
    const double apart = std::min(std::abs(wide_x - wide_y), std::numeric_limits<double>::max());  // may overflow
    out.largest_absolute = std::max(out.largest_absolute, apart);
    out.largest_ulps = std::max(out.largest_ulps.value_or(0), distance(place_of(x), place_of(y)));
  }
}

template <class T>
double finite_magnitude(const T& value) {
  const double magnitude = std::abs(static_cast<double>(value));
  return std::isfinite(magnitude) ? magnitude : 0;
}

template <class T>
TensorDifference measure(const at::Tensor& a, const at::Tensor& b) {
  const auto* x = static_cast<const T*>(a.data_ptr());
  const auto* y = static_cast<const T*>(b.data_ptr());
  TensorDifference out;
  out.elements = a.numel();
  double largest = 0;
  for (std::int64_t i = 0; i < out.elements; ++i) {
    largest = std::max({largest, finite_magnitude(x[i]), finite_magnitude(y[i])});
    if (bits_of(x[i]) == bits_of(y[i])) continue;
    ++out.differing;
    measure_pair(x[i], y[i], out);
  }
  if (largest > 0) out.largest_relative = out.largest_absolute / largest;
  return out;
}

TensorDifference measure_any(const at::Tensor& a, const at::Tensor& b) {
  switch (a.scalar_type()) {
    case at::kDouble:
      return measure<double>(a, b);
    case at::kFloat:
      return measure<float>(a, b);
    case at::kHalf:
      return measure<at::Half>(a, b);
    case at::kBFloat16:
      return measure<at::BFloat16>(a, b);
    case at::kLong:
      return measure<std::int64_t>(a, b);
    case at::kInt:
      return measure<std::int32_t>(a, b);
    case at::kShort:
      return measure<std::int16_t>(a, b);
    case at::kChar:
      return measure<std::int8_t>(a, b);
    case at::kByte:
    case at::kBool:
      return measure<std::uint8_t>(a, b);
    default:
      throw InternalError("a checkpoint holds a type that safetensors lacks");
  }
}

}  // namespace

std::optional<TensorDifference> compare_tensors(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0) return std::nullopt;
  return measure_any(a, b);
}

}  // namespace lockstep::checkpoint
