// SPDX-License-Identifier: Apache-2.0
// The clocks of a simulated host, and the waits that use them.
#pragma once

#include <time.h>

#include "sim/kernel.h"

namespace lockstep::sim {

/// Returns the time on `clock` on the running process's host.
[[nodiscard]] Nanos shown_by(clockid_t clock);
/// Returns the virtual moment at which `clock` reads `time`.
[[nodiscard]] Nanos moment_of(clockid_t clock, const timespec& time);

[[nodiscard]] inline Nanos nanos_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
[[nodiscard]] inline timespec timespec_of(Nanos time) { return {time / kSecond, time % kSecond}; }

}  // namespace lockstep::sim
