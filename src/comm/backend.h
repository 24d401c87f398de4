// SPDX-License-Identifier: Apache-2.0
// What carries the bytes of one group: blocking, one collective at a time. The queue above it makes it asynchronous.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "comm/collective.h"
#include "comm/failure.h"

namespace lockstep::comm {

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string name() const = 0;

  /// Runs one collective to its end or throws. Never called twice at the same time.
  /// Throws: PeerError, TimeoutError, UsageError (the ranks called different collectives).
  virtual void run(const Collective& collective) = 0;

  [[nodiscard]] virtual at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) = 0;

  /// Makes a run() under way on any rank end soon, with `reason` of this rank. Thread-safe: yes.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Tells the peers that this rank goes in order. Nothing is called after it but the destructor.
  virtual void leave() noexcept = 0;
};

}  // namespace lockstep::comm
