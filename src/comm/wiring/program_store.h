// SPDX-License-Identifier: Apache-2.0
// Separates the programs that one script runs one after the other. A launcher's store outlives each of them; a store
// that rank 0 serves may outlive the other ranks' part in the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/rank.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// Counts this program among those that the rank's script has started in this world, from 1, and returns its number.
/// From the second program on, replaces `store` by one with the program's own keys; only the keys through which the
/// ranks talk to their launcher stay the same.
[[nodiscard]] std::int64_t begin_program(std::shared_ptr<Store>& store, const RankInfo& info);

/// Returns a text that names the first rank whose script has started another number of programs than `program`, the
/// number of this rank's; none if there is no such rank. A rank that has started no program is late, not different.
[[nodiscard]] std::optional<std::string> other_program(Store& store, const RankInfo& info, std::int64_t program);

/// Connects to the store within the time given: connect_store().
using StoreConnector = std::function<std::shared_ptr<Store>(std::chrono::milliseconds)>;

/// Connects a rank other than 0 to the store that rank 0 of the same program serves, and counts the rank there. A store
/// in which the rank was counted before belongs to a program that the rank has left: rank 0 may still write its last
/// checkpoint. In that case the rank waits until this store has ended, then connects anew. `place` is the store's
/// "host:port", for the messages. Blocks: up to `timeout`.
/// Throws: anything `connect` throws; TimeoutError that names the earlier program, if its store has not ended in time.
[[nodiscard]] std::shared_ptr<Store> enter_program(const StoreConnector& connect, int rank, const std::string& place,
                                                   std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
