// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <vector>

#include "support/scarce.h"

namespace lockstep {
namespace resources_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ThreadName, IsThePurposeInWholeWords) {
  EXPECT_EQ(thread_name("for communication"), "communication");
  EXPECT_EQ(thread_name("for loader worker 3 of 4"), "loader worker 3");
  EXPECT_EQ(thread_name("for loader worker 12 of 40"), "loader worker");
  EXPECT_EQ(thread_name("that watches over the other ranks"), "watches over");
}

TEST(WordsOfLimit, OfThreadsNameTheLimitsThatAreKnown) {
  const ResourceLimits limits{.processes = 512, .group_tasks = 4915};
  const LimitWords words = words_of_limit(EAGAIN, limits);
  EXPECT_EQ(words.limit,
            "processes and threads are allowed: 512 to this user (ulimit -u), 4,915 to this control group (pids.max)");
  EXPECT_THAT(words.remedy, HasSubstr("ulimit -u"));
  EXPECT_THAT(words_of_limit(EAGAIN, {}).limit, HasSubstr("kernel.threads-max"));
}

TEST(WordsOfLimit, OfAThreadWhoseStackFindsNoRoomNameTheMemory) {
  const ResourceLimits limits{
      .processes = 512, .address_space = 8'000'000'000, .mapped = 7'995'000'000, .stack = 8U << 20U};
  const LimitWords words = words_of_limit(EAGAIN, limits);
  EXPECT_EQ(words.limit, "8.0 GB of address space are allowed (ulimit -v), 8.0 GB of it taken");
  EXPECT_THAT(words.remedy, HasSubstr("ulimit -v"));
}

TEST(WordsOfLimit, OfMemoryAndFilesAreTheirOwn) {
  const ResourceLimits limits{.processes = 512, .address_space = 1'000'000'000, .mapped = 1'000'000, .files = 24};
  EXPECT_THAT(words_of_limit(ENOMEM, limits).limit, HasSubstr("1.0 GB of address space"));
  EXPECT_THAT(words_of_limit(EMFILE, limits).limit, HasSubstr("24 open files are allowed here (ulimit -Hn)"));
  EXPECT_THAT(words_of_limit(ENFILE, limits).limit, HasSubstr("fs.file-max"));
}

TEST(ThrowCannot, KnowsAShortageFromAFault) {
  EXPECT_THROW(throw_cannot("fork", EAGAIN), ResourceError);
  EXPECT_THROW(throw_cannot("fork", ENOMEM), ResourceError);
  EXPECT_THROW(throw_cannot("fork", EMFILE), ResourceError);
  EXPECT_THROW(throw_cannot("fork", ENOENT), IoError);
}

TEST(StartThread, RunsItsBody) {
  int ran = 0;
  start_thread("for a test", [&] { ran = 1; }).join();
  EXPECT_EQ(ran, 1);
}

// In a process of its own, with so much address space that a few stacks fit.
TEST(StartThread, SaysWhatRanOut) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no limit of address space is kept here";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        std::vector<std::thread> threads;
        ::_exit(guarded_main([&]() -> int {
          while (threads.size() < 1000) threads.push_back(start_thread("for a test", [] { ::pause(); }));
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69),
      "cannot start a thread for a test \\(Resource temporarily unavailable\\): .* of address space are allowed "
      "\\(ulimit -v\\)");
}

TEST(RequireThreads, TriesSoManyAtATime) {
  EXPECT_NO_THROW(require_threads(3, "for a library"));
  EXPECT_NO_THROW(require_threads(0, "for a library"));
  if (!test::keeps_address_space()) GTEST_SKIP() << "no limit of address space is kept here";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        ::_exit(guarded_main([] {
          require_threads(1000, "for a library");
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "cannot start a thread for a library .*ulimit -v");
}

TEST(GuardedMain, SaysWhichMemoryRanOut) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(guarded_main([]() -> int { throw std::bad_alloc(); }), 69);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), AllOf(HasSubstr("out of memory"), HasSubstr("ulimit -v")));
}

TEST(GuardedMain, TakesAThreadThatALibraryCouldNotStartForAShortage) {
  const auto thrown = [](int error, const std::error_category& category) {
    return guarded_main([&]() -> int { throw std::system_error(error, category); });
  };
  EXPECT_EQ(thrown(EAGAIN, std::generic_category()), 69);
  EXPECT_EQ(thrown(EMFILE, std::system_category()), 69);
  EXPECT_EQ(thrown(EAGAIN, std::system_category()), 71) << "of a socket that would block";
  EXPECT_EQ(thrown(ECONNREFUSED, std::generic_category()), 71);
}

}  // namespace resources_test
}  // namespace lockstep
