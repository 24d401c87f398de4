// SPDX-License-Identifier: Apache-2.0
#include "train/stop.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace lockstep::train {
namespace {

constexpr std::array<int, 2> kSignals = {SIGTERM, SIGUSR1};

std::atomic<std::int64_t> terminated_ms = 0;  // of CLOCK_MONOTONIC; 0: not yet
std::atomic<int> user_signals = 0;
std::atomic<int> users = 0;

/// Of the signals of kSignals: what was there before, where we took its place.
std::array<struct sigaction, 2> before;
std::array<bool, 2> taken;

extern "C" void note_stop_signal(int number) {
  if (number == SIGUSR1) {
    user_signals.store(1);
    return;
  }
  // A scheduler that tells every process of a job tells the launcher too, which passes it on: one wish, said twice.
  constexpr std::int64_t kOneWishMs = 1000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ms = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  std::int64_t first = 0;
  if (terminated_ms.compare_exchange_strong(first, now_ms) || now_ms - first < kOneWishMs) return;
  ::signal(SIGTERM, SIG_DFL);
  ::raise(SIGTERM);
}

}  // namespace

std::string stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::kTimeLimit:
      return "--max-time";
    case StopReason::kUserSignal:
      return "SIGUSR1";
    case StopReason::kTerminated:
      return "SIGTERM";
    case StopReason::kNone:
      break;
  }
  return "";
}

StopSignals::StopSignals() {
  if (users.fetch_add(1) > 0) return;
  terminated_ms = 0;
  user_signals = 0;
  struct sigaction action {};
  action.sa_handler = note_stop_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    taken[i] = before[i].sa_handler == SIG_DFL;
    if (taken[i]) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (users.fetch_sub(1) > 1) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (taken[i]) ::sigaction(kSignals[i], &before[i], nullptr);
  }
}

StopReason StopSignals::seen() noexcept {
  if (terminated_ms.load() > 0) return StopReason::kTerminated;
  return user_signals.load() > 0 ? StopReason::kUserSignal : StopReason::kNone;
}

StopWish::StopWish(const Clock& clock, std::chrono::duration<double> max_time)
    : clock_(clock), max_time_(max_time), begin_(clock.now()) {}

StopReason StopWish::reason() const {
  if (const StopReason seen = StopSignals::seen(); seen != StopReason::kNone) return seen;
  const bool over = max_time_.count() > 0 && Seconds(clock_.now() - begin_) >= max_time_;
  return over ? StopReason::kTimeLimit : StopReason::kNone;
}

}  // namespace lockstep::train
