// SPDX-License-Identifier: Apache-2.0
// Carries bytes between any two ranks of a group, and nothing more. Lockstep computes the sums itself, in tree order,
// so that they have the same bits on every backend.
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

  /// Sends and receives all of them. Between two ranks messages match in order. Messages of no bytes are left out.
  /// Blocks: until all are sent and received.
  /// Throws: PeerError naming the dead rank, TimeoutError naming the late rank; WrongLength.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                        const Collective& collective) = 0;

  /// Returns true if a message of an unexpected length is a WrongLength, after the messages before it have come.
  /// Otherwise it looks like a dead rank, so ranks must compare their calls before they exchange anything else.
  [[nodiscard]] virtual bool reports_wrong_lengths() const noexcept { return false; }

  /// Called with the number of bytes that have come of every message, again and again, by the thread that exchanges.
  using Arrived = std::function<void(std::size_t)>;
  /// Does the same as exchange() for messages of one length to receive; their beginnings can be used while the rest is
  /// on its way.
  virtual void exchange_in_parts(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                 const Collective& collective, const Arrived& arrived) {
    exchange(sends, receives, collective);
    if (arrived && !receives.empty()) arrived(receives.front().bytes);
  }
};

/// The connections of a group over sockets. W ranks that are all connected with each other have W squared connections,
/// and take minutes to make them if W is 256; so two ranks connect when they first exchange a message.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual const World& world() const = 0;

  /// Returns the way between the ranks that pass the same `label`. One thread at a time uses it; messages name ranks of
  /// the world.
  /// Collective: no. Blocks: briefly; the first exchange reports a rank that does not come. Thread-safe: yes.
  [[nodiscard]] virtual std::shared_ptr<Transport> connect(const std::string& label) = 0;

  /// Reports to the other ranks that `suspect` died, not this rank. Blocks: briefly, until they know.
  virtual void report_death(int suspect) noexcept = 0;

  /// Makes every later exchange of the group fail. Thread-safe: yes.
  virtual void abort() noexcept = 0;
};

/// Returns a channel to or from one rank, which connects at the first message. The ranks need not open it at the same
/// time.
[[nodiscard]] std::unique_ptr<Runner> make_network_channel(std::shared_ptr<Network> network, int peer, bool sending);

/// Compares the calls of `ranks`: among few in one exchange, among many in a number of exchanges that is the logarithm
/// of theirs. Throws: UsageError if a call differs.
void compare_over(Transport& transport, const Collective& collective, const std::vector<int>& ranks);

}  // namespace lockstep::comm
