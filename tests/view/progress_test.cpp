// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace progress_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ManualClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  void advance(double seconds) { now_ += std::chrono::duration_cast<TimePoint::duration>(Seconds(seconds)); }

 private:
  TimePoint now_{};
};

ProgressState state_at(std::int64_t step) {
  return {.label = "epoch 3/150", .step = step, .steps = 400, .loss = 0.12345, .rate = 812.3, .seconds_left = 43.0};
}

TEST(RenderBar, ShowsBarStepsLossRateAndTimeLeft) {
  EXPECT_EQ(render_bar(state_at(200), 79),
            "epoch 3/150  │████████▌        │  200/400  loss 0.1235  812 images/s  43 s left");
}

TEST(RenderBar, IsEmptyAtTheStartAndFullAtTheEndAndAsWide) {
  EXPECT_THAT(render_bar(state_at(0), 79), HasSubstr("│                 │    0/400"));
  EXPECT_THAT(render_bar(state_at(400), 79), HasSubstr("│█████████████████│  400/400"));
  EXPECT_THAT(render_bar(state_at(900), 79), HasSubstr("│█████████████████│"));
}

TEST(RenderBar, DropsTheLeastTellingFirst) {
  EXPECT_EQ(render_bar(state_at(200), 60), "epoch 3/150  200/400  loss 0.1235  812 images/s  43 s left");
  EXPECT_THAT(render_bar(state_at(200), 45), HasSubstr("epoch 3/150  200/400  loss 0.1235  43 s left"));
  EXPECT_EQ(render_bar(state_at(200), 22), "epoch 3/150  200/400");
}

TEST(RenderBar, NeverTakesMoreThanItsWidth) {
  ProgressState state = state_at(137);
  for (const char* label :
       {"", "epoch 3/150", "第三轮 验证码", "a label that is much longer than any terminal that there is"}) {
    state.label = label;
    for (int width = 0; width <= 200; ++width) EXPECT_LE(display_width(render_bar(state, width)), width) << label;
  }
}

TEST(RenderBar, HasNoBarWhereTheEndIsUnknown) {
  EXPECT_EQ(render_bar({.label = "warming up", .step = 7}, 79), "warming up  7");
}

TEST(RenderBar, StandsNumbersThatAreNone) {
  ProgressState state = state_at(1);
  state.loss = std::numeric_limits<double>::quiet_NaN();
  state.rate = std::numeric_limits<double>::infinity();
  EXPECT_THAT(render_bar(state, 100), HasSubstr("loss nan  - images/s"));
}

TEST(RenderLine, IsPlainText) {
  EXPECT_EQ(render_line(state_at(40)), "epoch 3/150  step 40/400  loss 0.1235  812 images/s  43 s left");
  EXPECT_EQ(render_line({.step = 3, .rate = 15.25}), "step 3  15.2 images/s");
}

TEST(RateMeter, ForgetsWhatIsOlderThanItsWindow) {
  ManualClock clock;
  RateMeter meter(clock, Seconds(10));
  EXPECT_FALSE(meter.rate().has_value());
  meter.restart();
  clock.advance(20);
  meter.add(100);
  EXPECT_DOUBLE_EQ(meter.rate().value(), 5.0);
  for (int i = 0; i < 10; ++i) {
    clock.advance(1);
    meter.add(100);
  }
  EXPECT_DOUBLE_EQ(meter.rate().value(), 100.0);
}

TEST(RateMeter, DoesNotCountAPause) {
  ManualClock clock;
  RateMeter meter(clock);
  meter.restart();
  clock.advance(1);
  meter.add(50);
  clock.advance(1000);
  meter.restart();
  EXPECT_FALSE(meter.rate().has_value());
  clock.advance(2);
  meter.add(50);
  EXPECT_DOUBLE_EQ(meter.rate().value(), 25.0);
}

class ProgressBarTest : public ::testing::Test {
 protected:
  ProgressOptions options(bool live) {
    ProgressOptions options;
    options.live = live;
    options.width = 40;
    options.write = [this](std::string_view text) { written_.emplace_back(text); };
    return options;
  }

  ManualClock clock_;
  std::vector<std::string> written_;
};

TEST_F(ProgressBarTest, WritesAPlainLineAMinuteAndAlwaysTheLast) {
  ProgressBar bar(options(false), clock_);
  bar.update({.step = 1});
  clock_.advance(59);
  bar.update({.step = 2});
  clock_.advance(1);
  bar.update({.step = 3});
  bar.finish({.step = 4});
  EXPECT_THAT(written_, ElementsAre("step 1\n", "step 3\n", "step 4\n"));
}

TEST_F(ProgressBarTest, ThePlainLinesOfALoopDoNotEndInItsMiddle) {
  {
    ProgressBar bar(options(false), clock_);
    bar.update({.label = "writing", .step = 1, .steps = 9});
    for (int step = 2; step <= 9; ++step) bar.update({.label = "writing", .step = step, .steps = 9});
    bar.clear();
    EXPECT_THAT(written_, ElementsAre("writing  step 1/9\n", "writing  step 9/9\n"));
    bar.clear();
    bar.update({.label = "a loop too short for a line", .step = 1});
    bar.clear();
    EXPECT_THAT(written_, ElementsAre("writing  step 1/9\n", "writing  step 9/9\n"));
    clock_.advance(60);
    bar.update({.label = "again", .step = 1});
    bar.update({.label = "again", .step = 2});
  }
  EXPECT_EQ(written_.back(), "again  step 2\n") << "the destructor ends it too";
  EXPECT_EQ(written_.size(), 4U);
}

TEST_F(ProgressBarTest, TheLastLineHasAllOfALongLabel) {
  // Longer than what a string keeps in itself: a label that was freed is then seen here, and by the address sanitizer.
  const std::string label = "evaluating the held-out pictures of the second stage";
  {
    ProgressBar bar(options(false), clock_);
    for (int step = 1; step <= 3; ++step) bar.update({.label = label, .step = step, .unit = "held-out pictures/s"});
    bar.clear();
    clock_.advance(60);
    for (int step = 4; step <= 6; ++step) bar.update({.label = label, .step = step});
  }
  EXPECT_THAT(written_,
              ElementsAre(label + "  step 1\n", label + "  step 3\n", label + "  step 4\n", label + "  step 6\n"));
}

TEST_F(ProgressBarTest, RedrawsOneLineOnATerminal) {
  ProgressBar bar(options(true), clock_);
  bar.update({.step = 1});
  bar.update({.step = 2});
  clock_.advance(0.1);
  bar.update({.step = 3});
  bar.finish({.step = 4});
  EXPECT_THAT(written_, ElementsAre("\r  1\033[K", "\r  3\033[K", "\r  4\033[K", "\n"));
}

TEST_F(ProgressBarTest, MakesRoomForAMessage) {
  ProgressBar bar(options(true), clock_);
  bar.update({.step = 1});
  bar.message("saved");
  bar.update({.step = 2});
  EXPECT_THAT(written_, ElementsAre("\r  1\033[K", "\r\033[K", "saved\n", "\r  2\033[K"));
}

TEST_F(ProgressBarTest, TakesItselfAwayAtItsEnd) {
  { ProgressBar bar(options(true), clock_); }
  EXPECT_TRUE(written_.empty());
  {
    ProgressBar bar(options(true), clock_);
    bar.update({.step = 1});
  }
  EXPECT_EQ(written_.back(), "\r\033[K");
}

}  // namespace progress_test
}  // namespace lockstep::view
