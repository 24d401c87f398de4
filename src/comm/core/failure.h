// SPDX-License-Identifier: Apache-2.0
// The words of a group's failures, the same for all backends, and the record of the first one in the store.
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

/// What a backend must know of the ranks to name them.
struct World {
  int rank = 0;
  int size = 1;
  int whole = 0;  ///< the size that messages tell, where the group is one host's part of another; 0: size
  std::vector<std::string> hosts;  ///< by rank
  std::vector<int> ranks = {};     ///< of the job, by rank of this group; empty: the same
  std::vector<int> speakers = {};  ///< those who talk over the transport; empty: all
  std::shared_ptr<Store> store;
  std::string prefix;  ///< of this group's own keys in `store`
  /// How long to wait for somebody's word on why a rank died: the launcher's agent reaps it a moment later.
  std::chrono::milliseconds patience{0};
};

/// Writes the record unless there is one. Errors of the store are swallowed: the store may be what died.
void record_first_failure(Store& store, const FailureRecord& record) noexcept;

/// The record, if somebody wrote one within the world's patience. Never throws.
[[nodiscard]] std::optional<FailureRecord> first_failure(const World& world) noexcept;

/// A group's rank as everybody knows it: the job's.
[[nodiscard]] int job_rank(const World& world, int rank);

/// "rank 2 on host-a", of a rank of this group.
[[nodiscard]] std::string rank_text(const World& world, int rank);

/// What is thrown where a rank is gone: a PeerError that says why, if the store knows; where it ended because others
/// called something else than it did, the same UsageError.
[[noreturn]] void throw_death(const World& world, int rank, const Collective& collective);

/// The text of a PeerError for a rank that failed so.
[[nodiscard]] std::string failure_text(const World& world, const FailureRecord& record, const Collective& collective);

/// One late rank and what is known of it ("last finished operation 412").
struct LateRank {
  int rank = 0;
  std::string detail;
};

[[nodiscard]] TimeoutError timeout_error(const World& world, const Collective& collective,
                                         const std::vector<LateRank>& late);

/// The error where two ranks called different collectives.
[[nodiscard]] MismatchError mismatch_error(const World& world, const Descriptor& mine, int other,
                                           const Descriptor& theirs);

}  // namespace lockstep::comm
