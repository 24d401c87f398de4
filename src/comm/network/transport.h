// SPDX-License-Identifier: Apache-2.0
// Carries bytes between any two ranks of a group. Lockstep computes reductions itself, in tree order, so that they have
// the same bits on every backend.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/core/backend.h"
#include "comm/core/failure.h"
#include "lockstep/wire/circle.h"

namespace lockstep::comm {

using wire::Message;
using wire::WrongLength;

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual const World& world() const = 0;

  /// Sends and receives all messages. Between two ranks messages match in order. Empty messages are skipped.
  /// Blocks: until all messages are sent and received.
  /// Throws: PeerError naming the dead rank, TimeoutError naming the late rank; WrongLength.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                        const Collective& collective) = 0;

  /// Returns true if exchange() throws WrongLength for a message of an unexpected length, after the messages before it
  /// have arrived. Otherwise such a message looks like a dead rank, so ranks must compare their calls before any other
  /// exchange.
  [[nodiscard]] virtual bool reports_wrong_lengths() const noexcept { return false; }

  /// Called repeatedly by the exchanging thread, with the number of bytes that every message has received.
  using Arrived = std::function<void(std::size_t)>;
  /// Does the same as exchange() if all messages to receive have one length. Their first parts can be used before the
  /// rest has arrived.
  virtual void exchange_in_parts(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                 const Collective& collective, const Arrived& arrived) {
    exchange(sends, receives, collective);
    if (arrived && !receives.empty()) arrived(receives.front().bytes);
  }
};

/// The connections of a group over sockets. Two ranks connect when they first exchange a message: connecting all W
/// ranks with each other needs about W squared connections, which takes minutes for 256 ranks.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual const World& world() const = 0;

  /// Returns a transport between the ranks that pass the same `label`. One thread at a time may use it; its messages
  /// name ranks of the world.
  /// Collective: no. Blocks: briefly; the first exchange reports a missing rank. Thread-safe: yes.
  [[nodiscard]] virtual std::shared_ptr<Transport> connect(const std::string& label) = 0;

  /// Reports to the other ranks that it was `suspect` that died, not this rank. Blocks: briefly, until they know.
  virtual void report_death(int suspect) noexcept = 0;

  /// Makes every later exchange of the group fail. Thread-safe: yes.
  virtual void abort() noexcept = 0;
};

/// Returns a channel to or from one rank, which connects with the first message. The ranks need not open it at the same
/// time.
[[nodiscard]] std::unique_ptr<Runner> make_network_channel(std::shared_ptr<Network> network, int peer, bool sending);

/// Compares the calls of `ranks`, with one exchange among few ranks and a logarithmic number of exchanges among many.
/// Throws: UsageError if a call differs.
void compare_over(Transport& transport, const Collective& collective, const std::vector<int>& ranks);

}  // namespace lockstep::comm
