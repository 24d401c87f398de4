// SPDX-License-Identifier: Apache-2.0
#include "wire/patient_wait.h"

#include <algorithm>

namespace lockstep::wire {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kMostCredit = 8;
constexpr int kTryAgainAfter = 64;  // number of sleeps before polling is tried again

using SteadyClock = std::chrono::steady_clock;

}  // namespace

void PatientWait::moved() noexcept {
  if (is_spinning_) habit_.credit = std::min(habit_.credit + 1, kMostCredit);
  is_spinning_ = false;
  has_given_up_ = false;
}

bool PatientWait::spin() noexcept {
  if (has_given_up_) return false;
  if (is_spinning_) {
    if (SteadyClock::now() < end_) return true;
    is_spinning_ = false;
    has_given_up_ = true;
    habit_.credit = std::max(habit_.credit - 2, 0);
    return false;
  }
  if (habit_.credit == 0 && ++habit_.slept < kTryAgainAfter) return false;
  habit_.slept = 0;
  is_spinning_ = true;
  end_ = SteadyClock::now() + kSpin;
  return true;
}

void PatientWait::block(std::vector<pollfd>& fds, std::chrono::nanoseconds limit) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec time{seconds.count(), (limit - seconds).count()};
  (void)::ppoll(fds.data(), fds.size(), &time, nullptr);
}

}  // namespace lockstep::wire
