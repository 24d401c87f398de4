// SPDX-License-Identifier: Apache-2.0
// When the launcher says that ranks without Lockstep neither write nor compute: no test sleeps.
#include "launch/hangs/silence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace silence_test {

using std::chrono::seconds;

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

}  // namespace silence_test
}  // namespace lockstep::launch
