// SPDX-License-Identifier: Apache-2.0
// How the samples of a batch are put together where stacking will not do.
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

/// Which batch is put together: what it may depend on besides its samples. Nothing in it tells shards or workers apart,
/// so that a size drawn from it is the same on all ranks.
struct BatchContext {
  std::uint64_t seed = 0;  ///< of the loader
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< its place in the epoch, from 0
};

/// A function (samples) -> Batch or (samples, context) -> Batch, called by loader workers, several at once. `size`,
/// `indices`, `epoch` and `step` of what it returns are filled in by the loader. Empty: samples are stacked.
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
