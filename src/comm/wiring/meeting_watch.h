// SPDX-License-Identifier: Apache-2.0
// Notices that a rank has ended while ranks without a launcher are meeting. The ranks are not connected yet, so they
// would wait for store keys that the dead rank never sets.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/failure_record.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// A rank in the meeting, and its store.
struct MeetingPlace {
  StoreAddress address;
  std::chrono::milliseconds timeout{0};
  std::string job;     ///< prefix of all of this job's keys, which the caller's `waits` adds itself
  std::string prefix;  ///< prefix of the meeting's keys
  int rank = 0;
  std::string host;
};

/// Announces this rank in the store, and ends all waits on `waits` once another rank has ended within the meeting.
class MeetingWatch {
 public:
  /// Throws: anything connect_store() throws.
  MeetingWatch(const MeetingPlace& place, std::shared_ptr<Store> waits);
  /// Leaves the meeting: the ranks are connected, or this rank has reported its failure.
  ~MeetingWatch();
  MeetingWatch(const MeetingWatch&) = delete;
  MeetingWatch& operator=(const MeetingWatch&) = delete;

  /// Reports to the others that this rank has failed.
  void report(const FailureRecord& record) noexcept;
  /// Returns the failure that ended the waits; none if they were not ended within `patience`. The caller may notice the
  /// loss of the store before this watch does.
  [[nodiscard]] std::optional<FailureRecord> failure(std::chrono::milliseconds patience = {}) const;

 private:
  void watch();

  const std::string key_;
  const int rank_;
  const std::shared_ptr<Store> waits_;
  const std::shared_ptr<Store> store_;  ///< the watch thread's own connection
  std::unique_ptr<Presence> presence_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_leaving_ = false;
  std::optional<FailureRecord> failure_;
  std::thread thread_;
};

}  // namespace lockstep::comm
