// SPDX-License-Identifier: Apache-2.0
// What carries bytes between any two ranks of a group, and nothing more: the sums are ours, in tree order, so that they
// have the same bits on every backend.
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
  /// Throws: PeerError naming the rank that died, TimeoutError naming the late rank; WrongLength.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                        const Collective& collective) = 0;

  /// Returns true where a message of another length than awaited is a WrongLength, after those before it have come;
  /// else it looks like a dead rank, and ranks must have compared their calls before they exchange anything else.
  [[nodiscard]] virtual bool tells_wrong_lengths() const noexcept { return false; }

  /// So many bytes of every message to receive are there; called again and again, by the thread that exchanges.
  using Arrived = std::function<void(std::size_t)>;
  /// The same, for messages to receive of one length; their beginnings can be used while the rest is on its way.
  virtual void exchange_in_parts(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                 const Collective& collective, const Arrived& arrived) {
    exchange(sends, receives, collective);
    if (arrived && !receives.empty()) arrived(receives.front().bytes);
  }
};

/// The ways of a group over sockets. W ranks that are all connected with each other have W squared connections, and
/// take minutes to make them where W is 256; so two ranks connect when they first have something to say to each other.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual const World& world() const = 0;

  /// Returns the way between the ranks that ask for the same `label`, of which one thread at a time uses it; messages
  /// name ranks of the world.
  /// Collective: no.  Blocks: briefly; a rank that does not come is a matter of the first exchange.  Thread-safe: yes.
  [[nodiscard]] virtual std::shared_ptr<Transport> connect(const std::string& label) = 0;

  /// Answers the other ranks' question who died: not this rank, but `suspect`. Blocks: briefly, until they know.
  virtual void report_death(int suspect) noexcept = 0;

  /// Makes every later exchange of the group fail. Thread-safe: yes.
  virtual void abort() noexcept = 0;
};

/// A channel to or from one rank, which connects with it when the first message goes. The ranks need not open it at the
/// same time.
[[nodiscard]] std::unique_ptr<Runner> make_network_channel(std::shared_ptr<Network> network, int peer, bool sending);

/// Compares the calls of `ranks`: among few in one exchange, among many in as many as the logarithm. Throws: UsageError
/// where one of them called something else.
void compare_over(Transport& transport, const Collective& collective, const std::vector<int>& ranks);

}  // namespace lockstep::comm
