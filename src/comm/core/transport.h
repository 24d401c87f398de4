// SPDX-License-Identifier: Apache-2.0
// What carries bytes between any two ranks of a group, and nothing more: the sums are ours, in tree order, so that they
// have the same bits on every backend.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/core/backend.h"
#include "comm/core/failure.h"

namespace lockstep::comm {

/// Bytes to or from one rank.
struct Message {
  int rank = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual const World& world() const = 0;

  /// Sends and receives all of them. Between two ranks messages match in order. Messages of no bytes are left
  /// out.
  /// Blocks: until all have come and gone.
  /// Throws: PeerError naming who died, TimeoutError naming who is late.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                        const Collective& collective) = 0;

  [[nodiscard]] virtual std::unique_ptr<Runner> open_channel(int peer, bool sending) = 0;

  /// Answers the others' question who died: not this rank, but `suspect`. Blocks: a moment, until they know.
  virtual void report_death(int suspect) noexcept = 0;

  /// Every exchange from here on fails. Thread-safe: yes.
  virtual void abort() noexcept = 0;
};

/// Throws: UsageError where one of `ranks` called something else. Compares in one exchange between these ranks.
void compare_over(Transport& transport, const Collective& collective, const std::vector<int>& ranks);

}  // namespace lockstep::comm
