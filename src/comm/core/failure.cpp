// SPDX-License-Identifier: Apache-2.0
#include "comm/core/failure.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {

void record_first_failure(Store& store, const FailureRecord& record) noexcept {
  try {
    store.compare_set(kFirstFailureKey, "", to_json(record));
  } catch (const std::exception& problem) {
    log::debug("the first failure was not recorded: {}", problem.what());
  }
}

std::optional<FailureRecord> first_failure(const World& world) noexcept {
  if (world.store == nullptr) return std::nullopt;
  try {
    const auto end = AwakeClock::instance().now() + world.patience;
    auto text = world.store->try_get(kFirstFailureKey);
    while (!text && AwakeClock::instance().now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      text = world.store->try_get(kFirstFailureKey);
    }
    if (!text) return std::nullopt;
    return parse_failure(*text);
  } catch (const std::exception& problem) {
    log::debug("the record of the first failure could not be read: {}", problem.what());
    return std::nullopt;
  }
}

int job_rank(const World& world, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < world.ranks.size() ? world.ranks[index] : rank;
}

namespace {

std::string named(int rank, const std::string& host) {
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

}  // namespace

std::string rank_text(const World& world, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  const bool known = rank >= 0 && index < world.hosts.size();
  return named(job_rank(world, rank), known ? world.hosts[index] : "");
}

namespace {

constexpr const char* kMismatchHint =
    "every rank must call the same collectives in the same order, with the same shapes and dtypes";

int shown_size(const World& world) { return world.whole > 0 ? world.whole : world.size; }

std::string here_text(const World& world, const Collective& collective) {
  return fmt::format("rank {} was in {} ({})", job_rank(world, world.rank), name_of(collective.call.kind),
                     context_text(collective, shown_size(world)));
}

}  // namespace

std::string failure_text(const World& world, const FailureRecord& record, const Collective& collective) {
  // A lost node has its own record; none of its ranks failed.
  const std::string failure = record.kind == FailureKind::kLost
                                  ? record.message
                                  : fmt::format("{} failed: {}", named(record.rank, record.host), words_of(record));
  return fmt::format("{}\n  meanwhile     {}", failure, here_text(world, collective));
}

void throw_death(const World& world, int rank, const Collective& collective) {
  const auto record = first_failure(world);
  if (!record) {
    throw PeerError(fmt::format("{} died: its process ended without leaving the job\n  meanwhile     {}",
                                rank_text(world, rank), here_text(world, collective)));
  }
  if (record->kind == FailureKind::kMismatch) rethrow(*record);
  throw PeerError(failure_text(world, *record, collective));
}

void throw_disconnection(const World& world, int rank, const std::string& why, const Collective& collective) {
  if (first_failure(world)) throw_death(world, rank, collective);
  throw PeerError(fmt::format("the connection with {} was lost, but its process is alive{}\n  meanwhile     {}",
                              rank_text(world, rank), why.empty() ? "" : ": " + why, here_text(world, collective)));
}

std::string timeout_hint() {
  return fmt::format("check what the late rank is doing; if it needs this long, raise {} (seconds)",
                     env::timeout_variable());
}

TimeoutError timeout_error(const World& world, const Collective& collective, const std::vector<LateRank>& late) {
  std::vector<std::string> names;
  for (const LateRank& rank : late) {
    const std::string detail = rank.detail.empty() ? "" : fmt::format(" ({})", rank.detail);
    names.push_back(rank_text(world, rank.rank) + detail);
  }
  const double seconds = std::chrono::duration<double>(collective.timeout).count();
  return TimeoutError(fmt::format("{} timed out after {:.1f} s ({})\n  waiting for   {}", name_of(collective.call.kind),
                                  seconds, context_text(collective, shown_size(world)), text::join(names)),
                      timeout_hint());
}

MismatchError mismatch_error(const World& world, const Descriptor& own_call, int other, const Descriptor& other_call) {
  return MismatchError(
      fmt::format("the ranks called different collectives as operation {}: {} on rank {}, {} on rank {}",
                  own_call.sequence, call_text(own_call), job_rank(world, world.rank), call_text(other_call),
                  job_rank(world, other)),
      kMismatchHint);
}

}  // namespace lockstep::comm
