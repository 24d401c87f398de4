// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "support/scarce.h"

namespace lockstep {
namespace threads_test {

TEST(SetThreads, SetsThoseOfLibtorch) {
  const int before = at::get_num_threads();
  tensor::set_threads(3);
  EXPECT_EQ(at::get_num_threads(), 3);
  tensor::set_threads(before);
}

// Less than a stack is left. libtorch's pool alone would wait for ever for a thread that never began.
TEST(SetThreads, ThatTheSystemDoesNotGiveAreAnErrorAndNoHang) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no limit of address space is kept here";
  EXPECT_EXIT(
      {
        ::alarm(20);
        test::leave_address_space(4U << 20U);
        ::_exit(guarded_main([] {
          tensor::set_threads(4);
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "cannot start a thread for libtorch .*ulimit -v");
}

// After a fork libtorch builds its pool again at the first call, and other callers found none in that moment.
TEST(SetThreads, OfSixteenThreadsAtOnceAfterAFork) {
  const int before = at::get_num_threads();
  tensor::set_threads(4);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EXIT(
        {
          std::vector<std::thread> team;
          for (int thread = 0; thread < 16; ++thread) {
            team.emplace_back([] { tensor::set_threads_in_turn(1); });
          }
          for (std::thread& each : team) each.join();
          ::_exit(0);
        },
        ::testing::ExitedWithCode(0), "");
  }
  tensor::set_threads(before);
}

}  // namespace threads_test
}  // namespace lockstep
