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
  std::int64_t first = 0;  ///< the first one's place in the whole parameter
};

/// Returns what the place of a word is mixed with: a number that depends on the parameter's name alone.
[[nodiscard]] std::uint64_t digest_seed(std::string_view name);

/// Returns the digest of `words`, on the widest instruction set of this processor.
[[nodiscard]] std::uint64_t digest_words(const Words& words, std::uint64_t seed);

/// Returns the digest of `tensor`'s elements by libtorch's integer operators, as an int64 scalar on its device. `first`
/// is the element's number in the whole parameter. Elements are taken in the order of memory where the tensor is dense,
/// else in logical order.
[[nodiscard]] at::Tensor digest_by_operators(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);

/// Sums to which several threads add.
class DigestSums {
 public:
  void clear() noexcept;
  /// Returns where kernels add.
  [[nodiscard]] DigestCounts& counts() noexcept { return counts_; }
  /// Adds a whole tensor of any kind. It belongs to one thread.
  void add_gradients(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  void add_weights(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  /// Blocks: until a GPU has computed its part.
  [[nodiscard]] UpdateDigest get() const;

 private:
  DigestCounts counts_;
  at::Tensor on_device_[2] = {};  ///< what a GPU adds up, gradients first; undefined: nothing
};

/// The digests of an optimizer's updates.
class ParameterDigests {
 public:
  /// Begins with the digest of the weights. `begins` is as in Optimizer::digest_updates().
  ParameterDigests(const NamedTensors& parameters, const std::vector<std::int64_t>& begins);

  /// Begins a step.
  void clear() noexcept { sums_.clear(); }
  /// Returns where a kernel that goes through parameter `index` puts its digest.
  [[nodiscard]] DigestInto into(std::size_t index) {
    return {.counts = &sums_.counts(), .seed = places_[index].seed, .first = places_[index].begin};
  }
  /// Adds a parameter that was updated whole, or had no gradient.
  void add_weights(const NamedTensors& parameters, std::size_t index);
  /// Adds its gradient, which lies in memory as the parameter does.
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
