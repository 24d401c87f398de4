// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/meeting_watch.h"

#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::comm {
namespace {

constexpr auto kWatchNoLimit = std::chrono::hours(24 * 365);

FailureRecord record_of_death(int rank, const std::string& host) {
  return {.kind = FailureKind::kDied,
          .message = "its process ended while the ranks were connecting",
          .rank = rank,
          .host = host};
}

// Reads a last will, which the store prefixes with "closed" or "silent" and a newline.
std::optional<FailureRecord> record_in(const std::string& value) {
  return parse_failure(value.substr(value.find('{') == std::string::npos ? 0 : value.find('{')));
}

}  // namespace

MeetingWatch::MeetingWatch(const MeetingPlace& place, std::shared_ptr<Store> waits)
    : key_(place.prefix + "gone"),
      rank_(place.rank),
      waits_(std::move(waits)),
      store_(with_prefix(connect_store(place.address, place.timeout), place.job)),
      // A stopped or slow rank is not gone: the meeting's time limit ends the wait for it.
      presence_(std::make_unique<Presence>(place.address,
                                           PresenceOptions{.keys = {place.job + key_},
                                                           .will = to_json(record_of_death(place.rank, place.host)),
                                                           .silence = 2 * place.timeout},
                                           place.timeout)) {
  thread_ = start_thread("that watches the meeting", [this] { watch(); });
}

MeetingWatch::~MeetingWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
  }
  store_->shut_down();
  thread_.join();
}

void MeetingWatch::watch() {
  FailureRecord record = record_of_death(0, "");  // the store is gone, and rank 0 was serving it
  try {
    record = record_in(store_->get(key_, kWatchNoLimit)).value_or(record);
  } catch (const std::exception& problem) {
    log::debug("the store is gone: {}", problem.what());
  }
  const std::lock_guard lock(mutex_);
  if (is_leaving_ || record.rank == rank_) return;
  failure_ = std::move(record);
  changed_.notify_all();
  waits_->shut_down();
}

void MeetingWatch::report(const FailureRecord& record) noexcept {
  try {
    waits_->compare_set(key_, "", to_json(record));
  } catch (const std::exception& problem) {
    log::debug("the failure could not be reported to the other ranks: {}", problem.what());
  }
}

std::optional<FailureRecord> MeetingWatch::failure(std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  (void)changed_.wait_for(lock, patience, [this] { return failure_.has_value(); });
  return failure_;
}

}  // namespace lockstep::comm
