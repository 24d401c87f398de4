// SPDX-License-Identifier: Apache-2.0
// Ranks that hang: their stacks as text, the verdict, and silence.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "launch/failure.h"
#include "launch/hangs/hang_watch.h"
#include "launch/hangs/late_stacks.h"
#include "launch/hangs/self_report.h"
#include "launch/hangs/silence.h"
#include "launch/hangs/stack_words.h"
#include "lockstep/base/file_system.h"
#include "lockstep/flight/ring.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace hangs_test {

using nlohmann::json;
using std::chrono::seconds;
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
  EXPECT_THAT(lines, ElementsAre("thread 11 a, and 1 more in the same place",
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
                          "the remaining threads were not read: timed out"));
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

StackSources refused(int error, const SelfReport& inside) {
  return {.outside = [error](pid_t pid) { return ProcessStacks{.pid = pid, .refusal = error}; },
          .inside = [inside](const LateProcess&) { return inside; }};
}

TEST(LateStacks, WherePtraceIsRefusedTheRankWritesOneThreadItself) {
  const auto lines =
      stacks_of({.pid = 10, .state = 'R'}, refused(EPERM, {.frames = {{"Net::forward()", "train", 0x1c}}}));
  EXPECT_THAT(
      lines,
      ElementsAre("ptrace is not permitted here, so this is the stack written by the rank itself, for only one thread",
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
  EXPECT_THAT(
      stacks_of({.pid = 10, .state = 'S'}, refused(EPERM, {.problem = "it did not respond"})),
      ElementsAre("none: ptrace is not permitted here, and the rank did not write its own: it did not respond"));
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

TEST(VerdictFile, SaysWhoWhyAndWhatWasDoneThen) {
  const Order order{
      .kind = Order::Kind::kEnd,
      .reason = "no restarts are left",
      .cause =
          FailureRecord{
              .kind = FailureKind::kDied, .message = "killed by signal 9 (SIGKILL)", .rank = 2, .host = "gpu-b"},
      .code = 137};
  const json verdict = json::parse(verdict_json(order));
  EXPECT_EQ(verdict["schema"], 1);
  EXPECT_EQ(verdict["text"], "rank 2 on gpu-b failed first: killed by signal 9 (SIGKILL)");
  EXPECT_EQ(verdict["cause"], "died");
  EXPECT_EQ(verdict["rank"], 2);
  EXPECT_EQ(verdict["exit_code"], 137);
  EXPECT_EQ(verdict["then"], "no restarts are left");
}

TEST(VerdictFile, OfAHangHasTheLauncherOwnWordsAndOfARestartNoExitCode) {
  const Order order{.kind = Order::Kind::kAgain,
                    .reason = "restart 1 of 3",
                    .cause = FailureRecord{.kind = FailureKind::kHang, .message = "rank 1 hangs: it sleeps", .rank = 1},
                    .code = 76};
  const json verdict = json::parse(verdict_json(order));
  EXPECT_EQ(verdict["text"], "rank 1 hangs: it sleeps");
  EXPECT_EQ(verdict["cause"], "hang");
  EXPECT_EQ(verdict["exit_code"], 0);
}

TEST(VerdictFile, OfRanksThatLeftAsTheyWereToldBlamesNobody) {
  const Order order{.kind = Order::Kind::kEnd,
                    .reason = "the ranks stopped on request, rank 1 on gpu-b first",
                    .cause = FailureRecord{.kind = FailureKind::kDied, .message = "exit code 143", .rank = 1},
                    .is_graceful = true,
                    .code = 143};
  const json verdict = json::parse(verdict_json(order));
  EXPECT_EQ(verdict["text"], order.reason);
  EXPECT_EQ(verdict["cause"], "told");
  EXPECT_EQ(verdict["exit_code"], 143);
  EXPECT_EQ(verdict["then"], "");
}

TEST(VerdictFile, HasTheStacksOfTheRankOnlyWhereThereAreSome) {
  const Order order{.cause = FailureRecord{.kind = FailureKind::kHang, .rank = 1}};
  EXPECT_EQ(json::parse(verdict_json(order, {"thread 10 train (main)", "  #0 main+0x1 (train)"}))["stacks"],
            json({"thread 10 train (main)", "  #0 main+0x1 (train)"}));
  EXPECT_FALSE(json::parse(verdict_json(order)).contains("stacks"));
}

TEST(VerdictFile, LiesBesideTheLogsOfItsAttemptAndIsLeftOutWithoutACause) {
  const test::TempDir folder;
  write_verdict({.kind = Order::Kind::kEnd}, {}, folder.path());
  EXPECT_FALSE(FileSystem::system().exists(folder / "verdict.json"));
  write_verdict({.cause = FailureRecord{.message = "broken", .rank = 0}}, {}, folder.path());
  EXPECT_TRUE(json::parse(FileSystem::system().read(folder / "verdict.json")).contains("text"));
  write_verdict({.cause = FailureRecord{}}, {}, folder / "missing");
  std::filesystem::remove(folder / "verdict.json");
  write_verdict({.reason = "the launcher was asked to stop (SIGTERM)", .is_graceful = true}, {}, folder.path());
  EXPECT_EQ(json::parse(FileSystem::system().read(folder / "verdict.json"))["cause"], "told");
}

// The launcher's note that ranks that do not use Lockstep are neither writing nor computing: no test sleeps.

/// Ranks seen from outside: the watch polls once a second, as the launcher's does.
struct Ranks {
  SilenceWatch watch;
  TimePoint now{seconds(1000)};
  std::uint64_t output = 0;
  double cpu_s = 0;
  int said_at = -1;  ///< seconds since the start
  int said = 0;

  /// `each_second` updates the ranks' output and CPU time.
  void go_on(
      int count, const std::function<void()>& each_second = [] {}) {
    for (int i = 0; i < count; ++i) {
      now += seconds(1);
      each_second();
      const auto silence = watch.look(now, {.output = output, .ranks = 2, .cpu_s = [this] { return cpu_s; }});
      if (!silence || !watch.is_news(*silence)) continue;
      said_at = static_cast<int>((now - TimePoint(seconds(1000))) / seconds(1));
      ++said;
    }
  }
};

TEST(Silence, OfAMinuteIsSaidOnce) {
  Ranks ranks;
  ranks.go_on(60);
  EXPECT_EQ(ranks.said, 0);
  ranks.go_on(10);
  EXPECT_EQ(ranks.said, 1);
  EXPECT_LE(ranks.said_at, 66);
  ranks.go_on(3600);
  EXPECT_EQ(ranks.said, 1);
}

TEST(Silence, IsBrokenByOutput) {
  Ranks ranks;
  ranks.go_on(50);
  ++ranks.output;
  ranks.go_on(59);
  EXPECT_EQ(ranks.said, 0);
  ranks.go_on(10);
  EXPECT_EQ(ranks.said, 1);
}

TEST(Silence, IsBrokenByProcessorTime) {
  Ranks computing;
  computing.go_on(600, [&] { computing.cpu_s += 1; });
  EXPECT_EQ(computing.said, 0);
  computing.go_on(70);
  EXPECT_EQ(computing.said, 1) << "the epoch has ended, and the ranks hang";
  // One of two ranks reads a large file, and the other is waiting for it.
  Ranks reading;
  reading.go_on(600, [&] { reading.cpu_s += 0.02; });
  EXPECT_EQ(reading.said, 0);
}

TEST(Silence, AClockThatAThreadLooksAtIsNoWork) {
  Ranks ranks;
  ranks.go_on(3600, [&] { ranks.cpu_s += 0.001; });
  EXPECT_EQ(ranks.said, 1);
}

TEST(Silence, ASecondHangIsSaidAgain) {
  Ranks ranks;
  ranks.go_on(100);
  ++ranks.output;
  ranks.go_on(100);
  EXPECT_EQ(ranks.said, 2);
}

TEST(Silence, AProcessThatEndsIsNews) {
  Ranks ranks;
  ranks.cpu_s = 100;
  ranks.go_on(50);
  ranks.cpu_s = 40;  // the CPU time of the ended process is no longer counted
  ranks.go_on(50);
  EXPECT_EQ(ranks.said, 0);
}

TEST(Silence, ProcessorTimeIsAskedSeldomWhereRanksWrite) {
  Ranks ranks;
  int asked = 0;
  for (int i = 0; i < 600; ++i) {
    ranks.now += seconds(1);
    (void)ranks.watch.look(ranks.now, {.output = static_cast<std::uint64_t>(i), .ranks = 2, .cpu_s = [&] {
                                         ++asked;
                                         return 0.0;
                                       }});
  }
  EXPECT_EQ(asked, 0);
}

TEST(Silence, TheLineNamesRanksHostSecondsAndWhatToType) {
  EXPECT_EQ(silence_text({{0, 4711}, {1, 4712}}, "gpu-a", seconds(61)),
            "ranks 0, 1 on gpu-a have written nothing and used no processor time for 61 s: they may be hanging; "
            "lockstep doctor "
            "4711 shows where rank 0 is");
  EXPECT_EQ(
      silence_text({{3, 99}}, "gpu-b", seconds(60)),
      "rank 3 on gpu-b has written nothing and used no processor time for 60 s: it may be hanging; lockstep doctor 99 "
      "shows where it is");
}

/// The output of the launcher's own watch on two ranks, after polling once a second for `time`.
std::string said_of(const std::vector<WatchedRank>& ranks, seconds time, std::uint64_t output_each_second = 0) {
  HangWatch watch([](const char*) { return nullptr; });
  ::testing::internal::CaptureStderr();
  TimePoint now{seconds(1000)};
  for (std::uint64_t second = 0; second < static_cast<std::uint64_t>(time.count()); ++second) {
    now += seconds(1);
    EXPECT_FALSE(watch.look(now, ranks, second * output_each_second));
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(HangWatch, SpeaksOnceOfRanksWithoutLockstepThatDoNothing) {
  const test::TempDir folder;
  FlightRing first(folder / "first");
  FlightRing second(folder / "second");
  std::vector<WatchedRank> ranks = {{.rank = 0, .pid = 4711, .ring = &first},
                                    {.rank = 1, .pid = 4712, .ring = &second}};
  EXPECT_EQ(said_of(ranks, seconds(59)), "");
  const std::string said = said_of(ranks, seconds(1000));
  EXPECT_THAT(said, HasSubstr("note: ranks 0, 1 on "));
  EXPECT_EQ(said.find("note: "), said.rfind("note: ")) << said;
  EXPECT_EQ(said_of(ranks, seconds(1000), 1), "") << "they write";
  ranks[0].has_ended = true;
  EXPECT_THAT(said_of(ranks, seconds(100)), HasSubstr("note: rank 1 on "));
}

/// A ring as its rank sees it.
class RankRing {
 public:
  RankRing(const FlightRing& ring, const flight::RingOwner& owner) {
    const UniqueFd memory(::open(ring.path().c_str(), O_RDWR | O_CLOEXEC));
    at_ = ::mmap(nullptr, sizeof(flight::Ring), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (at_ == MAP_FAILED) throw std::runtime_error("mmap failed");
    writer_.emplace(*ring_of(at_), owner);
  }
  ~RankRing() { ::munmap(at_, sizeof(flight::Ring)); }
  RankRing(const RankRing&) = delete;
  RankRing& operator=(const RankRing&) = delete;

  [[nodiscard]] flight::Writer& writer() { return *writer_; }
  [[nodiscard]] TimePoint patience() const { return TimePoint(std::chrono::nanoseconds(ring_of(at_)->patience_ns)); }

 private:
  static flight::Ring* ring_of(void* at) { return static_cast<flight::Ring*>(at); }
  void* at_ = nullptr;
  std::optional<flight::Writer> writer_;
};

TEST(HangWatch, SaysNothingWhereARankUsesLockstep) {
  const test::TempDir folder;
  FlightRing first(folder / "first");
  FlightRing second(folder / "second");
  const RankRing begun(second, {.pid = ::getpid(), .rank = 1, .world_size = 2, .host = "here"});
  EXPECT_EQ(said_of({{.rank = 0, .pid = 4711, .ring = &first}, {.rank = 1, .pid = ::getpid(), .ring = &second}},
                    seconds(1000)),
            "");
}

TEST(HangWatch, LooksOftenEnoughForARankThatStartsAndSavesAtOnce) {
  const test::TempDir folder;
  FlightRing ring(folder / "ring");
  ::setenv("LOCKSTEP_TIMEOUT", "1", 1);
  HangWatch watch([](const char*) { return nullptr; });
  const TimePoint begin(std::chrono::nanoseconds(flight::now_ns()));
  (void)watch.look(begin, {{.rank = 0, .pid = ::getpid(), .ring = &ring}}, 0);
  ::unsetenv("LOCKSTEP_TIMEOUT");
  EXPECT_EQ(watch.due(), begin + std::chrono::milliseconds(125));
}

TEST(HangWatch, GivesARankItsWholeTimeoutForTheStepAfterItsLongWork) {
  const test::TempDir folder;
  FlightRing ring(folder / "ring");
  RankRing rank(ring, {.pid = ::getpid(), .world_size = 2, .host = "here", .timeout_ns = 40'000'000'000});
  HangWatch watch([](const char*) { return nullptr; });
  const std::vector<WatchedRank> ranks{{.rank = 0, .pid = ::getpid(), .ring = &ring}};
  const TimePoint begin(std::chrono::nanoseconds(flight::now_ns()));
  (void)watch.look(begin, ranks, 0);
  EXPECT_EQ(rank.patience(), TimePoint{}) << "no long work";
  rank.writer().enter("save");
  (void)watch.look(begin + seconds(1), ranks, 0);
  EXPECT_EQ(rank.patience(), begin + seconds(41));
  rank.writer().leave("save");
  (void)watch.look(begin + seconds(2), ranks, 0);
  EXPECT_EQ(rank.patience(), begin + seconds(41));
}

}  // namespace hangs_test
}  // namespace lockstep::launch
