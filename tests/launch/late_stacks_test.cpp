// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/late_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "launch/hangs/self_report.h"

namespace lockstep::launch {
namespace late_stacks_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StackSources refused(int error, const SelfReport& inside) {
  return {.outside = [error](pid_t pid) { return ProcessStacks{.pid = pid, .refusal = error}; },
          .inside = [inside](const LateProcess&) { return inside; }};
}

TEST(LateStacks, WherePtraceIsRefusedTheRankWritesOneThreadItself) {
  const auto lines =
      stacks_of({.pid = 10, .state = 'R'}, refused(EPERM, {.frames = {{"Net::forward()", "train", 0x1c}}}));
  EXPECT_THAT(lines,
              ElementsAre("ptrace is not permitted here, so this is what the rank wrote of the one thread that took "
                          "its signal",
                          "thread 10 (main)", "  #0 Net::forward()+0x1c (train)"));
}

TEST(LateStacks, AProcessThatCannotRunIsNotAsked) {
  bool is_asked = false;
  StackSources sources = refused(EACCES, {});
  sources.inside = [&](const LateProcess&) {
    is_asked = true;
    return SelfReport{};
  };
  EXPECT_THAT(stacks_of({.pid = 10, .state = 'T'}, sources),
              ElementsAre("none: ptrace is not permitted here, and the rank cannot write its own: it is stopped"));
  EXPECT_THAT(stacks_of({.pid = 10, .state = 'D'}, sources),
              ElementsAre(HasSubstr("cannot write its own: it is in uninterruptible sleep")));
  EXPECT_FALSE(is_asked);
}

TEST(LateStacks, WhoeverDoesNotAnswerIsNamedWithTheReason) {
  EXPECT_THAT(stacks_of({.pid = 10, .state = 'S'}, refused(EPERM, {.problem = "it did not answer"})),
              ElementsAre("none: ptrace is not permitted here, and the rank did not write its own: it did not answer"));
  EXPECT_THAT(stacks_of({.pid = 10, .state = 'S'}, refused(ESRCH, {})), ElementsAre("none: No such process"));
}

TEST(LateStacks, FromOutsideAreTakenAsTheyAre) {
  StackSources sources = refused(0, {});
  sources.outside = [](pid_t pid) {
    return ProcessStacks{.pid = pid, .threads = {{.thread = pid, .state = 'R', .frames = {{"main", "train", 1}}}}};
  };
  EXPECT_THAT(stacks_of({.pid = 10, .state = 'R'}, sources), ElementsAre("thread 10 (main)", "  #0 main+0x1 (train)"));
}

TEST(SelfReport, OnlyAProcessWithAHandlerGetsTheSignal) {
  const std::string status = "Name:\ttrain\nSigIgn:\t0000000000001000\nSigCgt:\t0000100000000002\nThreads:\t1\n";
  EXPECT_TRUE(catches(status, 45));
  EXPECT_TRUE(catches(status, 2));
  EXPECT_FALSE(catches(status, 44));
  EXPECT_FALSE(catches("Name:\ttrain\n", 45));
}

}  // namespace late_stacks_test
}  // namespace lockstep::launch
