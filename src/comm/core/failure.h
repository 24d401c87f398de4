// SPDX-License-Identifier: Apache-2.0
// The messages of a group's failures, the same for all backends, and the store's record of the first failure.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/core/collective.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// The facts that a backend needs to name ranks in errors.
struct World {
  int rank = 0;
  int size = 1;
  int whole = 0;                   ///< world size in messages if the group is one host's part of another; else 0
  std::vector<std::string> hosts;  ///< host names by rank
  std::vector<int> ranks = {};     ///< each rank's number in the job, by rank of this group; empty if they are equal
  std::vector<int> speakers = {};  ///< ranks that use the transport; empty for all ranks
  std::shared_ptr<Store> store;
  std::string prefix;  ///< prefix of this group's own keys in `store`
  /// How long to wait for the record of a rank's death: the launcher's agent writes it a moment after the death.
  std::chrono::milliseconds patience{0};
};

/// Writes the record unless there is one. Ignores the store's errors, since the store may be the cause.
void record_first_failure(Store& store, const FailureRecord& record) noexcept;

/// Returns the record, if one was written within the world's patience. Never throws.
[[nodiscard]] std::optional<FailureRecord> first_failure(const World& world) noexcept;

/// Returns the job rank of the group's rank `rank`.
[[nodiscard]] int job_rank(const World& world, int rank);

/// Returns "rank 2 on host-a" for a rank of this group.
[[nodiscard]] std::string rank_text(const World& world, int rank);

/// Throws the error for a rank that is gone: a PeerError, with the reason if the store has it. If the rank ended
/// because the calls differed, throws the same UsageError as that rank.
[[noreturn]] void throw_death(const World& world, int rank, const Collective& collective);

/// Throws the error for a rank that responds but whose connection was lost; `why` may be empty. If the store has a
/// record of a failed rank, that failure is the reason.
[[noreturn]] void throw_disconnection(const World& world, int rank, const std::string& why,
                                      const Collective& collective);

/// Returns the text of a PeerError for a rank that failed with `record`.
[[nodiscard]] std::string failure_text(const World& world, const FailureRecord& record, const Collective& collective);

/// A late rank and its progress, if known ("last finished operation 412").
struct LateRank {
  int rank = 0;
  std::string detail;
};

/// Returns the advice about a late rank, with the variable that sets the limit.
[[nodiscard]] std::string timeout_hint();

[[nodiscard]] TimeoutError timeout_error(const World& world, const Collective& collective,
                                         const std::vector<LateRank>& late);

/// Creates the error for two ranks that called different collectives.
[[nodiscard]] MismatchError mismatch_error(const World& world, const Descriptor& own_call, int other,
                                           const Descriptor& other_call);

}  // namespace lockstep::comm
