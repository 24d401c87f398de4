// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/health.h"

#include "lockstep/base/error.h"

namespace lockstep::comm {

bool GroupHealth::has_left(int rank) const noexcept {
  return segment_->slot(rank).left.load(std::memory_order_acquire) != 0;
}

void GroupHealth::check(const Collective& collective) const {
  if (failed()) throw_failure(segment_->failure(), collective);
}

void GroupHealth::fail_left(int rank, const Collective& collective) const {
  segment_->fail(FailureKind::kFailed, rank, "it left the job while other ranks still called collectives");
  throw_failure(segment_->failure(), collective);
}

void GroupHealth::fail_timeout(const Collective& collective, std::vector<LateRank> late) const {
  if (late.empty()) late.push_back({world_.rank, "which itself arrived too late"});
  const TimeoutError error = timeout_error(world_, collective, late);
  segment_->fail(FailureKind::kTimeout, late.front().rank, error.message());
  check(collective);
  throw error;
}

void GroupHealth::fail_mismatch(const Collective& collective, int other, const Descriptor& other_call) const {
  const MismatchError error = mismatch_error(world_, collective.call, other, other_call);
  segment_->fail(FailureKind::kMismatch, other, error.message());
  throw error;
}

void GroupHealth::throw_failure(const FailureRecord& failure, const Collective& collective) const {
  const std::string& words = failure.message;
  const auto subject = static_cast<std::size_t>(failure.rank);
  const std::string host = subject < world_.hosts.size() ? world_.hosts[subject] : "";
  switch (failure.kind) {
    case FailureKind::kFailed:
      throw PeerError(
          failure_text(world_, {.message = words, .rank = job_rank(world_, failure.rank), .host = host}, collective));
    case FailureKind::kTimeout:
      throw TimeoutError(words, timeout_hint());
    case FailureKind::kMismatch:
      throw MismatchError(words);
    case FailureKind::kPeer:
      throw PeerError(words);
    default:
      throw_death(world_, failure.rank, collective);
  }
}

}  // namespace lockstep::comm
