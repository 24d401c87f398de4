// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/machine_rates.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace lockstep::observe {
namespace {

template <class Body>
double seconds_of(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

double copied_bytes_per_s(std::int64_t bytes, std::int64_t repeats) {
  const at::Tensor from = at::ones({bytes}, at::kByte);
  const at::Tensor to = at::ones({bytes}, at::kByte);
  const auto copy = [&] { std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes()); };
  for (int warmup = 0; warmup < 2; ++warmup) copy();
  std::vector<double> times;
  for (std::int64_t i = 0; i < repeats; ++i) times.push_back(seconds_of(copy));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(bytes) / *middle;
}

double peak_flops_per_s(const PeakOptions& options) {
  const at::TensorOptions placement = at::TensorOptions(options.type).device(options.device);
  const at::Tensor left = at::ones({options.size, options.size}, placement);
  const at::Tensor right = at::ones({options.size, options.size}, placement);
  at::Tensor out = at::empty({options.size, options.size}, placement);
  const auto multiply = [&] {
    at::mm_out(out, left, right);
    if (options.device.is_cuda()) {
      c10::impl::VirtualGuardImpl(options.device.type()).getStream(options.device).synchronize();
    }
  };
  multiply();
  const double flops =
      2.0 * static_cast<double>(options.size) * static_cast<double>(options.size) * static_cast<double>(options.size);
  double whole = 0;
  double count = 0;
  while (whole < options.seconds) {
    whole += seconds_of(multiply);
    count += 1;
  }
  return flops * count / whole;
}

}  // namespace lockstep::observe
