// SPDX-License-Identifier: Apache-2.0
#include "dashboard/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::dashboard {
namespace process_test {

TEST(ProcessUse, ReadsAProgramWhoseNameHasBracketsAndSpaces) {
  const auto use = parse_process("17 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 99 1000000 25 0", 100, 4096);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->state, 'S');
  EXPECT_DOUBLE_EQ(use->cpu_seconds, 3.0);
  EXPECT_EQ(use->resident, 25U * 4096);
  EXPECT_FALSE(parse_process("17 (torn", 100, 4096));
  EXPECT_FALSE(parse_process("17 (short) S 1 1", 100, 4096));
}

TEST(ProcessUse, AZombieHasEnded) {
  EXPECT_TRUE(read_process(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t end;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(read_process(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_process(child));
}

TEST(ProcessUse, KnowsTheMachine) {
  const auto machine = read_machine_use();
  EXPECT_GT(machine["memory"].get<double>(), machine["available"].get<double>());
  EXPECT_GE(machine["total"].get<double>(), machine["busy"].get<double>());
}

}  // namespace process_test
}  // namespace lockstep::dashboard
