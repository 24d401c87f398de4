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

/// The 32-bit words of a parameter or of a part of it.
struct Words {
  const void* data = nullptr;
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< index of the first word in the whole parameter
};

/// Returns the seed that is mixed with the index of a word. It depends only on the parameter's name.
[[nodiscard]] std::uint64_t digest_seed(std::string_view name);

/// Returns the digest of `words`, computed with the widest instruction set of this processor.
[[nodiscard]] std::uint64_t digest_words(const Words& words, std::uint64_t seed);

/// Returns the digest of `tensor`'s elements, computed by libtorch's integer operators, as an int64 scalar on its
/// device. `first` is the index of the first element in the whole parameter. Elements are in memory order if the tensor
/// is dense, else in logical order.
[[nodiscard]] at::Tensor digest_by_operators(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);

/// Sums to which several threads add.
class DigestSums {
 public:
  void clear() noexcept;
  /// Returns the sums to which kernels add.
  [[nodiscard]] DigestCounts& counts() noexcept { return counts_; }
  /// Adds a whole tensor of any kind. Only one thread may call it.
  void add_gradients(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  void add_weights(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  /// Returns the sums. Blocks: until a GPU has computed its part.
  [[nodiscard]] UpdateDigest get() const;

 private:
  DigestCounts counts_;
  at::Tensor on_device_[2] = {};  ///< a GPU's sums of gradients and of weights; undefined if there are none
};

/// The digests of an optimizer's updates.
class ParameterDigests {
 public:
  /// Starts with the digest of the weights. For `begins` see Optimizer::digest_updates().
  ParameterDigests(const NamedTensors& parameters, const std::vector<std::int64_t>& begins);

  /// Clears the sums for the next step.
  void clear() noexcept { sums_.clear(); }
  /// Returns the destination to which a kernel adds the digest of parameter `index`.
  [[nodiscard]] DigestInto into(std::size_t index) {
    return {.counts = &sums_.counts(), .seed = places_[index].seed, .first = places_[index].begin};
  }
  /// Adds the weights of a parameter that no kernel has digested: it was updated as a whole or had no gradient.
  void add_weights(const NamedTensors& parameters, std::size_t index);
  /// Adds the gradient of parameter `index`, which has the memory layout of the parameter.
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
