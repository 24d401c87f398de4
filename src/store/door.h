// SPDX-License-Identifier: Apache-2.0
// The way into a store: a connection on which both sides have proved that they know the token.
#pragma once

#include "lockstep/base/clock.h"
#include "lockstep/base/result.h"
#include "lockstep/store/store.h"
#include "store/socket.h"

namespace lockstep::store {

/// A connection, or the reason why there is none; `is_reached`: a process listens there.
struct Opened {
  Result<Socket> socket;
  bool is_reached = false;
};

/// Connects once, and gives up if there is no answer within `reach`. Throws: UsageError if one side does not know the
/// token.
[[nodiscard]] Opened open_connection(const StoreAddress& address, TimePoint deadline,
                                     std::chrono::milliseconds reach = std::chrono::seconds(10));

/// Connects, and tries again until `deadline` while a process listens there: a server with too many strangers at its
/// door closes the oldest connections that have proved nothing yet, and another try gets in. Throws: as
/// open_connection().
[[nodiscard]] Opened open_among_strangers(const StoreAddress& address, TimePoint deadline);

/// How long a server may be silent before it counts as stopped or cut off: LOCKSTEP_TIMEOUT, 5 s at least and a minute
/// at most.
[[nodiscard]] std::chrono::milliseconds answer_limit();

}  // namespace lockstep::store
