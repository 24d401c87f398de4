// SPDX-License-Identifier: Apache-2.0
// While ranks without a launcher meet, a rank's end would go unnoticed: ranks are not connected yet, and each waits for
// keys of the store that the dead rank would set.
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
  std::string prefix;  ///< of the meeting's keys
  int rank = 0;
  std::string host;
};

/// Attends at the store, and ends all waits of `waits` once another rank has ended without leaving the meeting.
class MeetingWatch {
 public:
  /// Throws: as connect_store().
  MeetingWatch(const MeetingPlace& place, std::shared_ptr<Store> waits);
  /// Leaves the meeting: the ranks are connected, or this one has reported its failure.
  ~MeetingWatch();
  MeetingWatch(const MeetingWatch&) = delete;
  MeetingWatch& operator=(const MeetingWatch&) = delete;

  /// Reports to the others that this rank fails.
  void report(const FailureRecord& record) noexcept;
  /// Returns the reason why the waits were ended; none: they were not, or not within `patience`. The caller may notice
  /// the loss of the store itself before this watch does.
  [[nodiscard]] std::optional<FailureRecord> failure(std::chrono::milliseconds patience = {}) const;

 private:
  void watch();

  const std::string key_;
  const int rank_;
  const std::shared_ptr<Store> waits_;
  const std::shared_ptr<Store> store_;  ///< of the thread
  std::unique_ptr<Presence> presence_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_leaving_ = false;
  std::optional<FailureRecord> failure_;
  std::thread thread_;
};

}  // namespace lockstep::comm
