// SPDX-License-Identifier: Apache-2.0
// A fake libucs: like UCX, it handles crash signals and SIGHUP as soon as it is loaded.
#include <signal.h>
#include <unistd.h>

namespace {

void (*replaced)(int) = SIG_DFL;  // the program's handler of SIGHUP

void end_quietly(int /*signal*/) { ::_exit(7); }

[[gnu::constructor]] void take_signals() {
  replaced = ::signal(SIGHUP, end_quietly);
  ::signal(SIGSEGV, end_quietly);
}

}  // namespace

#ifndef LOCKSTEP_STAND_IN_IS_OLD
extern "C" [[gnu::visibility("default")]] void ucs_debug_disable_signal(int number) { ::signal(number, replaced); }
#endif
