// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
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

// Less than a stack is left, and the stacks of threads that had ended before the fork are too few for all.
// libtorch's pool alone would wait for ever for a thread that never began.
TEST(SetThreads, ThatTheSystemDoesNotGiveAreAnErrorAndNoHang) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no limit of address space is kept here";
  EXPECT_EXIT(
      {
        ::alarm(20);
        test::leave_address_space(4U << 20U);
        ::_exit(guarded_main([] {
          tensor::set_threads(64);
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

/// Sets libtorch's number of threads, and back at its end.
struct Threads {
  explicit Threads(int count) : before(at::get_num_threads()) { tensor::set_threads(count); }
  ~Threads() { tensor::set_threads(before); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int before;
};

TEST(ParallelFor, RunsOnAsManyThreadsAsWereSet) {
#if defined(__clang__)
  GTEST_SKIP() << "Clang's OpenMP is not libtorch's";
#endif
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    std::mutex mutex;
    std::set<std::thread::id> found;
    tensor::parallel_for(0, 3, 1, [&](std::int64_t, std::int64_t) {
      const std::lock_guard lock(mutex);
      found.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(found.size(), static_cast<std::size_t>(count));
  }
}

TEST(ParallelFor, TakesEachNumberOnceInRangesOfTheGrainAtLeast) {
  const Threads threads(3);
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  tensor::parallel_for(5, 47, 20, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  std::int64_t next = 5;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, next);
    if (end != 47) EXPECT_GE(end - begin, 14);  // libtorch's: 42 numbers on three threads
    next = end;
  }
  EXPECT_EQ(next, 47);
}

TEST(ParallelFor, GivesTheErrorOfARangeToItsCaller) {
  const Threads threads(2);
  EXPECT_THROW(tensor::parallel_for(0, 2, 1,
                                    [](std::int64_t begin, std::int64_t end) {
                                      if (begin <= 1 && end > 1) throw std::runtime_error("the second");
                                    }),
               std::runtime_error);
  std::atomic<int> calls = 0;
  tensor::parallel_for(3, 3, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

}  // namespace threads_test
}  // namespace lockstep
