// SPDX-License-Identifier: Apache-2.0
#include "comm/core/failure.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/job.h"

namespace lockstep::comm {

void record_first_failure(Store& store, const FailureRecord& record) noexcept {
  try {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string json = fmt::format(R"({{"rank": {}, "host": {}, "what": {}, "time_ns": {}}})", record.rank,
                                         text::json_quote(record.host), text::json_quote(record.what),
                                         std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    store.compare_set(kFirstFailureKey, "", json);
  } catch (const std::exception& problem) {
    log::debug("the first failure was not recorded: {}", problem.what());
  }
}

std::optional<FailureRecord> first_failure(const World& world) noexcept {
  if (world.store == nullptr) return std::nullopt;
  try {
    const auto end = std::chrono::steady_clock::now() + world.patience;
    auto text = world.store->try_get(kFirstFailureKey);
    while (!text && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      text = world.store->try_get(kFirstFailureKey);
    }
    if (!text) return std::nullopt;
    const auto json = nlohmann::json::parse(*text);
    return FailureRecord{json.value("rank", -1), text::printable_line(json.value("host", "")),
                         text::printable(json.value("what", ""))};
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
constexpr const char* kMismatch = "the ranks called different collectives";

int told_size(const World& world) { return world.whole > 0 ? world.whole : world.size; }

std::string here_text(const World& world, const Collective& collective) {
  return fmt::format("rank {} was in {} ({})", job_rank(world, world.rank), name_of(collective.what.kind),
                     context_text(collective, told_size(world)));
}

}  // namespace

std::string failure_text(const World& world, const FailureRecord& record, const Collective& collective) {
  return fmt::format("{} failed: {}\n  meanwhile     {}", named(record.rank, record.host), record.what,
                     here_text(world, collective));
}

void throw_death(const World& world, int rank, const Collective& collective) {
  const auto record = first_failure(world);
  if (!record) {
    throw PeerError(fmt::format("{} died: its process ended without leaving the job\n  meanwhile     {}",
                                rank_text(world, rank), here_text(world, collective)));
  }
  const auto mismatch = record->what.find(kMismatch);
  if (mismatch != std::string::npos) throw UsageError(record->what.substr(mismatch), kMismatchHint);
  throw PeerError(failure_text(world, *record, collective));
}

TimeoutError timeout_error(const World& world, const Collective& collective, const std::vector<LateRank>& late) {
  std::vector<std::string> names;
  for (const LateRank& rank : late) {
    const std::string detail = rank.detail.empty() ? "" : fmt::format(" ({})", rank.detail);
    names.push_back(rank_text(world, rank.rank) + detail);
  }
  const double seconds = std::chrono::duration<double>(collective.timeout).count();
  return TimeoutError(fmt::format("{} timed out after {:.1f} s ({})\n  waiting for   {}", name_of(collective.what.kind),
                                  seconds, context_text(collective, told_size(world)), text::join(names)),
                      "look at what the late rank does; if it may take so long, raise LOCKSTEP_TIMEOUT (seconds)");
}

UsageError mismatch_error(const World& world, const Descriptor& mine, int other, const Descriptor& theirs) {
  return UsageError(
      fmt::format("the ranks called different collectives as operation {}: {} on rank {}, {} on rank {}", mine.sequence,
                  call_text(mine), job_rank(world, world.rank), call_text(theirs), job_rank(world, other)),
      "every rank must call the same collectives in the same order, with the same shapes and dtypes");
}

std::string typed_text(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error))
    return fmt::format("{}: {}", ours->type(), ours->message());
  return fmt::format("{}: {}", fault::type_of_unknown(), fault::headline(error));
}

}  // namespace lockstep::comm
