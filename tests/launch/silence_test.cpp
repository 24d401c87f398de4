// SPDX-License-Identifier: Apache-2.0
// When the launcher says that ranks without Lockstep neither write nor compute: no test sleeps.
#include "launch/hangs/silence.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch/hangs/hang_watch.h"
#include "lockstep/flight/ring.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace silence_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

/// Ranks as they are seen from outside, looked at once a second as the launcher does.
struct Ranks {
  SilenceWatch watch;
  TimePoint now{seconds(1000)};
  std::uint64_t output = 0;
  double cpu_s = 0;
  int said_at = -1;  ///< seconds since the beginning
  int said = 0;

  /// `each_second` changes what the ranks have done.
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
  // One of two ranks reads a large file, and the other waits for it.
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
  ranks.cpu_s = 40;  // its time is gone with it
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
  EXPECT_EQ(
      silence_text({{0, 4711}, {1, 4712}}, "gpu-a", seconds(61)),
      "ranks 0, 1 on gpu-a have written nothing and used no processor time for 61 s: they may hang; lockstep doctor "
      "4711 shows where rank 0 is");
  EXPECT_EQ(silence_text({{3, 99}}, "gpu-b", seconds(60)),
            "rank 3 on gpu-b has written nothing and used no processor time for 60 s: it may hang; lockstep doctor 99 "
            "shows where it is");
}

/// What the launcher's own watch says of two ranks, looked at once a second for so long.
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

TEST(HangWatch, SaysNothingWhereARankUsesLockstep) {
  const test::TempDir folder;
  FlightRing first(folder / "first");
  FlightRing second(folder / "second");
  const UniqueFd memory(::open(second.path().c_str(), O_RDWR | O_CLOEXEC));
  void* at = ::mmap(nullptr, sizeof(flight::Ring), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  const flight::Writer begun(*static_cast<flight::Ring*>(at), {.pid = ::getpid(), .rank = 1, .world_size = 2});
  EXPECT_EQ(said_of({{.rank = 0, .pid = 4711, .ring = &first}, {.rank = 1, .pid = ::getpid(), .ring = &second}},
                    seconds(1000)),
            "");
  ::munmap(at, sizeof(flight::Ring));
}

}  // namespace silence_test
}  // namespace lockstep::launch
