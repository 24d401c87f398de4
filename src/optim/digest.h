// SPDX-License-Identifier: Apache-2.0
// The digest of tensors, as docs/formats/digests.md defines it: a sum over their 32-bit words.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "lockstep/optim/optimizer.h"

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
  /// Adds words that lie in the cache.
  void add_gradients(const Words& words, std::uint64_t seed) noexcept { gradients_ += digest_words(words, seed); }
  void add_weights(const Words& words, std::uint64_t seed) noexcept { weights_ += digest_words(words, seed); }
  /// Adds a whole tensor of any kind. It belongs to one thread.
  void add_gradients(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  void add_weights(const at::Tensor& tensor, std::int64_t first, std::uint64_t seed);
  /// Blocks: until a GPU has computed its part.
  [[nodiscard]] UpdateDigest get() const;

 private:
  std::atomic<std::uint64_t> gradients_ = 0;
  std::atomic<std::uint64_t> weights_ = 0;
  at::Tensor on_device_[2] = {};  ///< what a GPU adds up, gradients first; undefined: nothing
};

}  // namespace lockstep::optim
