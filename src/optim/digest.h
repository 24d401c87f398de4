// SPDX-License-Identifier: Apache-2.0
// The digest of tensors, as docs/formats/digests.md defines it: a sum over their 32-bit words.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/named_tensors.h"
#include "optim/kernels.h"

namespace lockstep::optim {

/// Words of memory: those of a parameter or of a part of it.
struct Words {
  const void* data = nullptr;
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< index of the first one in the whole parameter
};

/// Returns the seed that is mixed with the place of a word: a number that depends on the parameter's name alone.
[[nodiscard]] std::uint64_t digest_seed(std::string_view name);

/// Returns the digest of `words`, on the widest instruction set of this processor.
[[nodiscard]] std::uint64_t digest_words(const Words& words, std::uint64_t seed);

/// Returns the digest of `tensor`'s elements by libtorch's integer operators, as an int64 scalar on its device. `first`
/// is the index of the first element in the whole parameter. Elements are in memory order if the tensor is dense, else
/// in logical order.
[[nodiscard]] at::Tensor digest_by_operators(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);

/// Sums to which several threads add.
class DigestSums {
 public:
  void clear() noexcept;
  /// Returns the sums to which kernels add.
  [[nodiscard]] DigestCounts& counts() noexcept { return counts_; }
  /// Adds a whole tensor of any kind. It belongs to one thread.
  void add_gradients(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  void add_weights(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  /// Blocks: until a GPU has computed its part.
  [[nodiscard]] UpdateDigest get() const;

 private:
  DigestCounts counts_;
  at::Tensor on_device_[2] = {};  ///< the sums of a GPU, gradients first; undefined: nothing
};

/// The digests of an optimizer's updates.
class ParameterDigests {
 public:
  /// Begins with the digest of the weights. `begins` is as in Optimizer::digest_updates().
  ParameterDigests(const NamedTensors& parameters, const std::vector<std::int64_t>& begins);

  /// Begins a step.
  void clear() noexcept { sums_.clear(); }
  /// Returns the target for the digest of parameter `index`, for a kernel.
  [[nodiscard]] DigestInto into(std::size_t index) {
    return {.counts = &sums_.counts(), .seed = places_[index].seed, .first = places_[index].begin};
  }
  /// Adds a parameter that was updated whole, or had no gradient.
  void add_weights(const NamedTensors& parameters, std::size_t index);
  /// Adds its gradient, which has the memory layout of the parameter.
  void add_gradient(const at::Tensor& grad, std::size_t index);

  [[nodiscard]] UpdateDigest get() const { return sums_.get(); }

 private:
  struct Place {
    std::uint64_t seed = 0;
    std::int64_t begin = 0;
  };
  std::vector<Place> places_;
  DigestSums sums_;
};

}  // namespace lockstep::optim
