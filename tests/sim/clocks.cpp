// SPDX-License-Identifier: Apache-2.0
#include "sim/clocks.h"

#include <dlfcn.h>
#include <sys/time.h>

namespace lockstep::sim {

namespace {

constexpr Nanos kReading = 30;  // how long reading a clock takes

bool is_inside() { return kernel() != nullptr && kernel()->current() != nullptr; }

bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

}  // namespace

Nanos shown_by(clockid_t clock) {
  const Host& host = *kernel()->current()->process->host;
  return is_wall(clock) ? host.wall(kernel()->now()) : host.monotonic(kernel()->now());
}

Nanos moment_of(clockid_t clock, const timespec& time) {
  const Nanos left = time.tv_sec > 4'000'000'000 ? kNever : nanos_of(time) - shown_by(clock);
  return left > kNever / 2 ? kNever : kernel()->now() + left;
}

}  // namespace lockstep::sim

using namespace lockstep::sim;  // NOLINT(google-build-using-namespace): the file is the C library's clocks

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  if (!is_inside()) {
    static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
    return real(clock, out);
  }
  kernel()->pass(kReading);
  *out = timespec_of(shown_by(clock));
  return 0;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int nanosleep(const timespec* wanted, timespec* left) {
  if (!is_inside()) {
    static const auto real = reinterpret_cast<decltype(&nanosleep)>(::dlsym(RTLD_NEXT, "nanosleep"));
    return real(wanted, left);
  }
  kernel()->block(kernel()->now() + nanos_of(*wanted));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec*) {
  if (!is_inside()) return ENOSYS;
  kernel()->block((flags & TIMER_ABSTIME) != 0 ? moment_of(clock, *wanted) : kernel()->now() + nanos_of(*wanted));
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
