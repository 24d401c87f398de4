// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/stack_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace stack_words_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const StackFrame kSleep{"clock_nanosleep", "libc.so.6", 0x65};
const StackFrame kForward{"Net::forward(at::Tensor)", "train", 0x1c};
const StackFrame kMain{"main", "train", 0xa7};
const StackFrame kEntry{"", "train", 0x20};
const StackFrame kStart{"__libc_start_main", "libc.so.6", 0x84};
const StackFrame kPool{"c10::ThreadPool::main_loop(unsigned long)", "libc10.so", 0x10};
const StackFrame kThread{"", "libc.so.6", 0x891f4};
const StackFrame kLoader{"lockstep::WorkerPool::work()", "train", 0x20};

ProcessStacks process(std::vector<ThreadStack> threads) {
  return {.pid = 10, .program = "train", .threads = std::move(threads)};
}

TEST(StackWords, TheMainThreadComesFirstAndEndsAtMain) {
  const auto lines =
      words_of(process({{.thread = 11, .name = "busy", .state = 'R', .frames = {kLoader, kThread}},
                        {.thread = 10, .name = "train", .state = 'R', .frames = {kForward, kMain, kEntry, kStart}}}));
  EXPECT_THAT(
      lines, ElementsAre("thread 10 train (main)", "  #0 Net::forward(at::Tensor)+0x1c (train)",
                         "  #1 main+0xa7 (train)", "thread 11 busy", "  #0 lockstep::WorkerPool::work()+0x20 (train)"));
}

TEST(StackWords, ThreadsThatWaitAlikeInAPoolAreOnlyCounted) {
  std::vector<ThreadStack> threads{{.thread = 10, .state = 'R', .frames = {kMain}}};
  for (int i = 0; i < 6; ++i) {
    threads.push_back({.thread = 20 + i, .state = 'S', .frames = {kSleep, kPool, kThread}});
  }
  const auto lines = words_of(process(threads));
  EXPECT_EQ(lines.back(), "6 more threads wait in clock_nanosleep below c10::ThreadPool::main_loop(unsigned long)");
  EXPECT_EQ(lines.size(), 3U);
}

TEST(StackWords, AThreadOfTheProgramThatWaitsAloneIsShown) {
  const auto lines = words_of(process({{.thread = 10, .state = 'S', .frames = {kSleep, kMain}},
                                       {.thread = 11, .name = "saver", .state = 'S', .frames = {kSleep, kLoader}},
                                       {.thread = 12, .name = "pool", .state = 'S', .frames = {kSleep, kPool}}}));
  EXPECT_THAT(lines, ::testing::Contains("thread 11 saver"));
  EXPECT_THAT(lines, Each(Not(HasSubstr("thread 12"))));
}

TEST(StackWords, ThreadsThatComputeAtOnePlaceAreShownOnce) {
  const auto lines = words_of(process({{.thread = 11, .name = "a", .state = 'R', .frames = {kLoader}},
                                       {.thread = 12, .name = "b", .state = 'R', .frames = {kLoader}}}));
  EXPECT_THAT(lines, ElementsAre("thread 11 a, and 1 more at the same place",
                                 "  #0 lockstep::WorkerPool::work()+0x20 (train)"));
}

TEST(StackWords, OfAStoppedProcessTheThreadsOfAPoolAreKnownByTheirInnermostFrame) {
  const StackFrame barrier{"", "libgomp.so.1.0.0", 0x1e64e};
  const auto lines = words_of(process({{.thread = 10, .state = 'T', .frames = {kMain}},
                                       {.thread = 11, .state = 'T', .frames = {barrier, kThread}},
                                       {.thread = 12, .state = 'T', .frames = {barrier, kThread}}}));
  EXPECT_EQ(lines.back(), "2 more threads wait in libgomp.so.1.0.0");
}

TEST(StackWords, AThreadOfAPoolThatTurnsWhileItWaitsHasNoWorkEither) {
  const StackFrame barrier{"", "libgomp.so.1.0.0", 0x1e64e};
  const auto lines = words_of(process({{.thread = 11, .state = 'R', .frames = {barrier, kThread}}}));
  EXPECT_THAT(lines, ElementsAre("1 more thread waits in libgomp.so.1.0.0"));
}

TEST(StackWords, LongStacksAndManyThreadsAreCutToTheLimits) {
  ProcessStacks stacks = process({});
  for (int i = 0; i < 30; ++i) {
    ThreadStack thread{.thread = 10 + i, .name = "t", .state = 'R'};
    for (int frame = 0; frame < 30; ++frame) {
      thread.frames.push_back({"f" + std::to_string(i), "train", static_cast<std::uint64_t>(frame)});
    }
    stacks.threads.push_back(thread);
  }
  const auto lines = words_of(stacks);
  EXPECT_LE(lines.size(), 40U);
  EXPECT_EQ(lines[21], "  10 more frames");
  EXPECT_EQ(lines.back(), "28 more threads");
  EXPECT_THAT(words_of(stacks, {.lines = 100}), Each(Not(IsEmpty())));
}

TEST(StackWords, FramesOfTheLibraryInBetweenAreLeftOutAndStringsAreShort) {
  const StackFrame section{"auto lockstep::fault::in_section<main::{lambda()#1}>(char const*)", "train", 1};
  const StackFrame open{"open(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
                        "train", 2};
  const auto lines = words_of(process({{.thread = 10, .state = 'R', .frames = {open, section, kMain}}}));
  EXPECT_THAT(lines,
              ElementsAre("thread 10 (main)", "  #0 open(std::string const&)+0x2 (train)", "  #1 main+0xa7 (train)"));
}

TEST(StackWords, AFrameWithoutANameHasTheFilesOffset) {
  const auto lines = words_of(process({{.thread = 10, .state = 'R', .frames = {{"", "train", 0x4711}}}}));
  EXPECT_EQ(lines[1], "  #0 ?+0x4711 (train)");
}

TEST(StackWords, SayWhyAThreadHasNoFramesAndThatTimeWasUp) {
  ProcessStacks stacks = process({{.thread = 10, .name = "train", .problem = "it cannot be interrupted in nfs_wait"}});
  stacks.is_cut = true;
  EXPECT_THAT(words_of(stacks),
              ElementsAre("thread 10 train (main)", "  no frames: it cannot be interrupted in nfs_wait",
                          "there was no time for more threads"));
}

TEST(StackWords, OfAPythonProgramNameTheToolForItsFrames) {
  ProcessStacks stacks = process({{.thread = 10, .state = 'R', .frames = {kMain}}});
  stacks.program = "python3.11";
  EXPECT_EQ(words_of(stacks).back(), "python frames: py-spy dump --pid 10 (while it hangs)");
}

TEST(StackWords, WhatARankWroteOfItselfIsReadBack) {
  const auto frames = parse_frames("\n    #0 _Z4openv+0x1c (train)\n    #1 ?+0x4711 (libc.so.6)\nnonsense\nend\n");
  EXPECT_THAT(frames, ElementsAre(StackFrame{"open()", "train", 0x1c}, StackFrame{"", "libc.so.6", 0x4711}));
  EXPECT_THAT(parse_frames("#0 broken+0x (\n#\n# \n"), IsEmpty());
}

}  // namespace stack_words_test
}  // namespace lockstep::launch
