// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/signal_guard.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep {
namespace signal_guard_test {

bool is_blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(SignalGuard, BlocksSignalsForAThreadThatIsStartedUnderItAndRestoresThemInItsOwn) {
  bool blocked_there = false;
  std::thread thread;
  {
    const SignalGuard guard;
    EXPECT_TRUE(is_blocked(SIGINT));
    thread = std::thread([&] { blocked_there = is_blocked(SIGINT) && is_blocked(SIGTERM); });
  }
  EXPECT_FALSE(is_blocked(SIGINT));
  thread.join();
  EXPECT_TRUE(blocked_there);
}

TEST(SignalGuard, LeavesASignalBlockedThatWasSoBefore) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  { const SignalGuard guard; }
  EXPECT_TRUE(is_blocked(SIGUSR1));
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

}  // namespace signal_guard_test
}  // namespace lockstep
