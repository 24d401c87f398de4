// SPDX-License-Identifier: Apache-2.0
// Opens a connection to a store, on which both sides have proved that they know the token.
#pragma once

#include "lockstep/base/clock.h"
#include "lockstep/base/result.h"
#include "lockstep/store/store.h"
#include "store/socket.h"

namespace lockstep::store {

/// A connection, or the reason why there is none. `is_reached` is true if a process listens there.
struct Opened {
  Result<Socket> socket;
  bool is_reached = false;
};

/// Connects once; gives up if there is no reply within `reach`. Throws: UsageError if one side does not know the token.
[[nodiscard]] Opened open_connection(const StoreAddress& address, TimePoint deadline,
                                     std::chrono::milliseconds reach = std::chrono::seconds(10));

/// Connects, retrying until `deadline` unless the connection is refused. A server with too many strangers closes the
/// oldest connections that have not sent a proof. This connection may be one of them, and another attempt then
/// succeeds. If a network loses the first packets of a connection, TCP retransmits them after 1, 2, 4 s and so on; a
/// new attempt every `reach` is faster.
/// Throws: anything open_connection() throws.
[[nodiscard]] Opened open_among_strangers(const StoreAddress& address, TimePoint deadline,
                                          std::chrono::milliseconds reach = std::chrono::seconds(1));

/// Returns how long a server may be silent before it counts as lost: LOCKSTEP_TIMEOUT, but at least 5 s and at most 60
/// s.
[[nodiscard]] std::chrono::milliseconds answer_limit();

}  // namespace lockstep::store
