// SPDX-License-Identifier: Apache-2.0
// Functions that combine the samples of a batch when stacking is not enough.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Identifies the batch being built; a collate function may depend only on it and the samples. Numbers from random()
/// differ between replicas and depend neither on ranks nor on workers. Draw a value that must be equal on all replicas,
/// such as a size, from a SampleRandom(seed, epoch, step).
struct BatchContext {
  std::uint64_t seed = 0;    ///< the loader's seed
  std::int64_t epoch = 0;    ///< the epoch, from 0
  std::int64_t step = 0;     ///< index of the batch in the epoch, from 0
  std::int64_t replica = 0;  ///< the loader's shard: the replica that receives the batch

  /// Returns the random number generator of this batch on this replica, in its initial state.
  [[nodiscard]] SampleRandom random() const noexcept {
    constexpr std::uint64_t kStream = 0x636f6c6c61746521;  // separates the numbers of batches from those of samples
    SampleRandom of_replica(seed ^ kStream, static_cast<std::uint64_t>(replica));
    return SampleRandom(of_replica(), static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(step));
  }
};

/// A function (samples) -> Batch or (samples, context) -> Batch, called by several loader workers at once. The loader
/// fills in `size`, `indices`, `epoch` and `step` of the result. An empty Collate stacks the samples.
class Collate {
 public:
  Collate() = default;
  Collate(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Collate> &&
           (std::invocable<F&, std::vector<Sample>> || std::invocable<F&, std::vector<Sample>, const BatchContext&>))
      Collate(F function) {  // NOLINT(google-explicit-constructor): `.collate = [](std::vector<Sample> samples) {...}`
    if constexpr (std::invocable<F&, std::vector<Sample>, const BatchContext&>) {
      call_ = std::move(function);
    } else {
      call_ = [call = std::move(function)](std::vector<Sample> samples, const BatchContext&) mutable -> Batch {
        return call(std::move(samples));
      };
    }
  }

  explicit operator bool() const noexcept { return static_cast<bool>(call_); }
  Batch operator()(std::vector<Sample> samples, const BatchContext& context) const {
    return call_(std::move(samples), context);
  }

 private:
  std::function<Batch(std::vector<Sample>, const BatchContext&)> call_;
};

}  // namespace lockstep

#pragma GCC visibility pop
