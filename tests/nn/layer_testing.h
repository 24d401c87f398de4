// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of our layers: comparison with libtorch's, on various numbers of threads.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/Parallel.h>

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "lockstep/tensor/random.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/vector/dropout_bits.h"

namespace lockstep::nn {

/// The largest difference relative to the largest value.
inline double difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wanted = expected.detach().to(at::kDouble);
  const double largest = wanted.abs().max().item<double>();
  return (found.detach().to(at::kDouble) - wanted).abs().max().item<double>() / (largest + 1e-30);
}

/// Success if `run` gives the same bits on 1, 2 and 3 threads.
inline testing::AssertionResult same_on_any_threads(const std::function<std::vector<at::Tensor>()>& run) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = run();
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const std::vector<at::Tensor> many = run();
    at::set_num_threads(before);
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (!at::equal(one[i], many[i])) {
        return testing::AssertionFailure() << "result " << i << " differs on " << threads << " threads";
      }
    }
  }
  return testing::AssertionSuccess();
}

/// Autocasts to bfloat16 during its lifetime.
class Autocasting {
 public:
  Autocasting() : before_(tensor::autocast_state(at::kCPU)) {
    tensor::set_autocast_state(at::kCPU, {.enabled = true, .dtype = at::kBFloat16, .weight_cache = true});
  }
  ~Autocasting() { tensor::set_autocast_state(at::kCPU, before_); }
  Autocasting(const Autocasting&) = delete;
  Autocasting& operator=(const Autocasting&) = delete;

 private:
  tensor::AutocastState before_;
};

/// Dropout's factors, in memory order, given that the layer takes the first random number after `seed_all(seed)`.
inline at::Tensor dropout_factors(std::int64_t numel, double dropout, std::uint64_t seed) {
  at::Generator generator = make_generator(seed);
  const auto of_layer = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(dropout_bytes(numel)));
  fill_dropout_bits(bits.data(), 0, (numel + 127) / 128, of_layer, 1 - dropout);
  const at::Tensor factors = at::empty({numel}, at::kDouble);
  for (std::int64_t i = 0; i < numel; ++i) {
    const bool kept = (bits[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1) != 0;
    factors.data_ptr<double>()[i] = kept ? 1 / (1 - dropout) : 0;
  }
  return factors;
}

}  // namespace lockstep::nn
