// SPDX-License-Identifier: Apache-2.0
#include "optim/digest.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include "lockstep/optim/tensor_digest.h"
#include "optim/digest_hash.h"

namespace lockstep::optim {
namespace {

constexpr std::int64_t kLowHalf = 0xFFFFFFFF;

std::int64_t words_of_element(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.element_size()) / 4; }

/// Returns a one-dimensional tensor with the same elements, in memory order if the tensor is dense.
at::Tensor in_one_row(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach();
  if (!plain.is_non_overlapping_and_dense()) return plain.contiguous().view(-1);
  return plain.as_strided({plain.numel()}, {1});
}

/// Returns the upper 32 bits of int64s, as a number.
at::Tensor upper_half(const at::Tensor& values) { return values.bitwise_right_shift(32).bitwise_and(kLowHalf); }

}  // namespace

std::uint64_t digest_seed(std::string_view name) {
  std::uint64_t seed = 0xCBF29CE484222325U;  // FNV-1a
  for (const char letter : name) seed = (seed ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  seed = (seed ^ (seed >> 30U)) * 0xBF58476D1CE4E5B9U;  // the finalizer of splitmix64
  seed = (seed ^ (seed >> 27U)) * 0x94D049BB133111EBU;
  return seed ^ (seed >> 31U);
}

at::Tensor digest_by_operators(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  const at::Tensor words = in_one_row(tensor).view(at::kInt).to(at::kLong).bitwise_and(kLowHalf);
  const std::int64_t begin = first * words_of_element(tensor);
  const at::Tensor place = at::arange(begin, begin + words.numel(), words.options());
  const at::Tensor key =
      place.bitwise_right_shift(1).mul(static_cast<std::int64_t>(kDigestStep)).add(static_cast<std::int64_t>(seed));
  const at::Tensor low = key.bitwise_and(kLowHalf);
  const at::Tensor high = upper_half(key);
  const at::Tensor second = place.bitwise_and(1).eq(1);
  const at::Tensor mixed = words.bitwise_xor(at::where(second, high, low));
  const at::Tensor product = mixed.mul(at::where(second, low, high).bitwise_or(1));
  constexpr std::int64_t kKept = (std::int64_t{1} << (64 - kDigestShift)) - 1;  // a signed shift copies the sign
  return product.bitwise_xor(product.bitwise_right_shift(kDigestShift).bitwise_and(kKept)).sum();
}

void DigestSums::clear() noexcept {
  counts_.gradients = 0;
  counts_.weights = 0;
  for (at::Tensor& sum : on_device_) sum.reset();
}

namespace {

void add(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed, std::atomic<std::uint64_t>& sum,
         at::Tensor& on_device) {
  if (tensor.numel() == 0) return;
  if (tensor.device().is_cpu()) {
    const at::Tensor row = in_one_row(tensor);
    const std::int64_t each = words_of_element(tensor);
    sum += digest_words({row.data_ptr(), row.numel() * each, first * each}, seed);
    return;
  }
  const at::Tensor more = digest_by_operators(tensor, first, seed);
  on_device = on_device.defined() ? on_device.add(more.to(on_device.device())) : more;
}

std::uint64_t total(std::uint64_t sum, const at::Tensor& on_device) {
  return on_device.defined() ? sum + static_cast<std::uint64_t>(on_device.item<std::int64_t>()) : sum;
}

}  // namespace

void DigestSums::add_gradients(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed) {
  add(tensor, first, seed, counts_.gradients, on_device_[0]);
}

void DigestSums::add_weights(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed) {
  add(tensor, first, seed, counts_.weights, on_device_[1]);
}

UpdateDigest DigestSums::get() const {
  return {.gradients = total(counts_.gradients, on_device_[0]), .weights = total(counts_.weights, on_device_[1])};
}

ParameterDigests::ParameterDigests(const NamedTensors& parameters, const std::vector<std::int64_t>& begins) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    places_.push_back({.seed = digest_seed(parameters[i].first), .begin = begins.empty() ? 0 : begins.at(i)});
    add_weights(parameters, i);
  }
}

void ParameterDigests::add_weights(const NamedTensors& parameters, std::size_t index) {
  sums_.add_weights(parameters[index].second, places_[index].begin, places_[index].seed);
}

void ParameterDigests::add_gradient(const at::Tensor& grad, std::size_t index) {
  sums_.add_gradients(grad, places_[index].begin, places_[index].seed);
}

std::uint64_t digest_of(const at::Tensor& tensor, std::string_view name) {
  if (!tensor.defined()) return 0;
  DigestSums sums;
  sums.add_weights(tensor, 0, digest_seed(name));
  return sums.get().weights;
}

std::uint64_t digest_of(const NamedTensors& tensors) {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors) sum += digest_of(tensor, name);
  return sum;
}

}  // namespace lockstep::optim
