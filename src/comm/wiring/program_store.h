// SPDX-License-Identifier: Apache-2.0
// Separates the programs that one script runs one after the other: a launcher's store outlives each of them.
#pragma once

#include <cstdint>
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

}  // namespace lockstep::comm
