// SPDX-License-Identifier: Apache-2.0
#include "train/plan/stop.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace lockstep::train {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGUSR1, SIGINT};

/// The first SIGINT or SIGTERM, in one machine word so that a handler can set it atomically; 0 if none yet.
std::atomic<std::int64_t> first_stop = 0;
std::atomic<int> user_signals = 0;
std::atomic<int> users = 0;

/// The previous handlers of kSignals, if Lockstep replaced them.
std::array<struct sigaction, 3> old_actions;
std::array<bool, 3> taken;

std::int64_t packed(const StopSignal& signal, bool interrupt) {
  return signal.ms * 4 + (signal.from_terminal ? 2 : 0) + (interrupt ? 1 : 0);
}

bool is_interrupt(std::int64_t word) { return word % 2 == 1; }

StopSignal unpacked(std::int64_t word) { return {.ms = word / 4, .from_terminal = word / 2 % 2 == 1}; }

/// Responds to Ctrl-C immediately, since the run prints nothing until its current step is done.
void answer_terminal() {
  constexpr std::string_view kWords = "\nCtrl-C: saving the run, then exiting; press it again to exit immediately\n";
  if (::isatty(STDERR_FILENO) != 0) (void)!::write(STDERR_FILENO, kWords.data(), kWords.size());
}

extern "C" void note_stop_signal(int number, siginfo_t* info, void* /*context*/) {
  if (number == SIGUSR1) {
    user_signals.store(1);
    return;
  }
  const int error = errno;
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const StopSignal now{.ms = static_cast<std::int64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000,
                       .from_terminal = number == SIGINT && info->si_code == SI_KERNEL};
  std::int64_t first = 0;
  if (first_stop.compare_exchange_strong(first, packed(now, number == SIGINT))) {
    if (now.from_terminal) answer_terminal();
  } else if (asks_again(unpacked(first), now)) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  errno = error;
}

}  // namespace

std::string stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::kTimeLimit:
      return "--max-time";
    case StopReason::kUserSignal:
      return "SIGUSR1";
    case StopReason::kInterrupted:
      return "SIGINT";
    case StopReason::kTerminated:
      return "SIGTERM";
    case StopReason::kDisk:
    case StopReason::kNone:
      break;
  }
  return "";
}

bool asks_again(const StopSignal& first, const StopSignal& now) noexcept {
  constexpr std::int64_t kOneWishMs = 1000;
  return (first.from_terminal && now.from_terminal) || now.ms - first.ms >= kOneWishMs;
}

StopSignals::StopSignals() {
  if (users.fetch_add(1) > 0) return;
  first_stop = 0;
  user_signals = 0;
  struct sigaction action {};
  action.sa_sigaction = note_stop_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &old_actions[i]);
    taken[i] = old_actions[i].sa_handler == SIG_DFL;
    if (taken[i]) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (users.fetch_sub(1) > 1) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (taken[i]) ::sigaction(kSignals[i], &old_actions[i], nullptr);
  }
}

StopReason StopSignals::seen() noexcept {
  const std::int64_t stop = first_stop.load();
  if (stop != 0) return is_interrupt(stop) ? StopReason::kInterrupted : StopReason::kTerminated;
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
