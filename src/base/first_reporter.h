// SPDX-License-Identifier: Apache-2.0
// Decides which thread reports why the process ends, if several threads fail together.
#pragma once

#include <time.h>
#include <unistd.h>

#include <atomic>

namespace lockstep::base {

/// The first thread that calls claim() reports and then ends the process. All functions may run in a signal handler.
class FirstReporter {
 public:
  /// Returns true only in the first call. Later calls return false: at once in the same thread, whose report has itself
  /// failed; in other threads after 2 s, in case the report hangs. Their caller then ends the process.
  /// Blocks: up to 2 s, in threads other than the first one.
  [[nodiscard]] bool claim() noexcept {
    const pid_t self = ::gettid();
    pid_t first = 0;
    if (first_.compare_exchange_strong(first, self)) return true;
    if (first != self) wait_for_the_end();
    return false;
  }

 private:
  static void wait_for_the_end() noexcept {
    constexpr timespec kTick = {.tv_sec = 0, .tv_nsec = 10'000'000};
    for (int tick = 0; tick < 200; ++tick) ::nanosleep(&kTick, nullptr);
  }

  std::atomic<pid_t> first_ = 0;  ///< the thread's id; 0 if none has called claim() yet
};

}  // namespace lockstep::base
