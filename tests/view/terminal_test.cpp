// SPDX-License-Identifier: Apache-2.0
// Drawing in a terminal: lines that fit, tables, the banner, progress.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/progress.h"
#include "lockstep/view/table.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace terminal_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FitLines, CutsEachLineOnItsOwn) {
  EXPECT_EQ(fit_lines_to("a long line\nshort\n\n验证码验证码", 6), "a lon…\nshort\n\n验证…");
  EXPECT_EQ(fit_lines_to("", 6), "");
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("loss"), 4);
  EXPECT_EQ(display_width("│█▏│"), 4);
  EXPECT_EQ(display_width("验证码"), 6);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("\033[31mred\033[0m"), 3);
  EXPECT_EQ(display_width("\xff\xfe"), 2);
  EXPECT_EQ(display_width("\xe9\xaa"), 2);
}

TEST(Fit, CutsBetweenLetters) {
  EXPECT_EQ(fit("loss", 4), "loss");
  EXPECT_EQ(fit("losses", 4), "los…");
  EXPECT_EQ(fit("验证码", 4), "验…");
  EXPECT_EQ(fit("验证码", 5), "验证…");
  EXPECT_EQ(fit("abc", 1), "…");
  EXPECT_EQ(fit("abc", 0), "");
}

TEST(Pad, FillsToAWidth) {
  EXPECT_EQ(pad("ab", 4), "ab  ");
  EXPECT_EQ(pad("ab", 4, Align::kRight), "  ab");
  EXPECT_EQ(pad("验", 4), "验  ");
  EXPECT_EQ(pad("abcde", 4), "abcde");
}

TEST(Paint, AddsNothingWhereColorIsOff) {
  EXPECT_EQ(paint("x", Color::kRed, false), "x");
  EXPECT_EQ(paint("x", Color::kRed, true), "\033[31mx\033[0m");
  EXPECT_EQ(paint("x", Color::kNone, true), "x");
}

TEST(Terminal, AFileIsNone) {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(is_terminal(null.get()));
  EXPECT_FALSE(use_color(null.get()));
  ::setenv("COLUMNS", "123", 1);
  EXPECT_EQ(terminal_width(null.get()), 123);
  ::setenv("COLUMNS", "wide", 1);
  EXPECT_EQ(terminal_width(null.get()), 80);
}

TEST(Terminal, NoColorIsRespectedOnATerminal) {
  const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.valid() || !is_terminal(terminal.get())) GTEST_SKIP() << "this machine gives no pseudo terminal";
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(use_color(terminal.get()));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(use_color(terminal.get()));
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(use_color(terminal.get()));
}

TEST(Table, AlignsRowsThatComeOneByOne) {
  const Table table({{"epoch", 7}, {"loss", 8}, {"note", 0, Align::kLeft}});
  EXPECT_EQ(table.header(), "  epoch      loss  note\n-------  --------  ----\n");
  EXPECT_EQ(table.row({"1/150", "0.1042", "best"}), "  1/150    0.1042  best\n");
  EXPECT_EQ(table.row({"2/150", "0.0998", ""}), "  2/150    0.0998\n");
}

TEST(Table, LeavesOutTheLeastImportantColumnsWhereItIsTooWide) {
  const std::vector<Column> columns = {{"epoch", 7},
                                       {.title = "lr", .width = 9, .leave_out = 1},
                                       {"loss", 8},
                                       {.title = "memory", .width = 8, .leave_out = 2}};
  EXPECT_EQ(Table(columns, 38).row({"1/150", "6e-4", "0.1042", "2 GB"}), "  1/150       6e-4    0.1042      2 GB\n");
  EXPECT_EQ(Table(columns, 37).header(), "  epoch         lr      loss\n-------  ---------  --------\n");
  EXPECT_EQ(Table(columns, 20).row({"1/150", "6e-4", "0.1042", "2 GB"}), "  1/150    0.1042\n");
  EXPECT_EQ(Table(columns, 3).row({"1/150", "6e-4", "0.1042", "2 GB"}), "  1/150    0.1042\n") << "the rest stays";
}

TEST(Table, RefusesARowOfAnotherLength) { EXPECT_THROW((void)Table({{"a"}}).row({"1", "2"}), UsageError); }

TEST(Table, IsAsWideAsItsWidestCellInColumnsNotBytes) {
  EXPECT_EQ(render_table({{"名", 0, Align::kLeft}, {"n"}}, {{"验证码", "1"}, {"abc", "100"}}),
            "名        n\n------  ---\n验证码    1\nabc     100\n");
}

TEST(Table, ACellSteersNoTerminalAndStaysInItsRow) {
  EXPECT_EQ(render_table({{"class", 0, Align::kLeft}, {"n"}}, {{"\x1b[31mcat\n", "1"}}),
            "class          n\n-------------  -\n\\x1b[31mcat\\n  1\n");
}

TEST(Confusions, ListsTheMostFrequentFirst) {
  EXPECT_EQ(render_confusions({{"1", "I", 1}, {"0", "O", 12}, {"5", "S", 1}, {"2", "Z", 0}}, 2),
            "predicted O for 0: 12 times\npredicted I for 1: 1 time\nand 1 more kinds\n");
  EXPECT_EQ(render_confusions({}), "no confusions\n");
}

BannerInfo captcha() {
  BannerInfo info;
  info.title = "Lockstep 0.1.0: captcha";
  info.devices = {{0, "a", "Intel Xeon, 1 of 2 cores"}, {1, "a", "Intel Xeon, 1 of 2 cores"}};
  info.backend = "shm";
  info.backend_reason = "both ranks are on this host";
  info.batch_per_replica = 512;
  info.replicas = 3;
  info.workers = 12;
  info.train_samples = 50'030;
  info.steps_per_epoch = 33;
  info.epochs = 150;
  info.precision = "bf16 autocast, channels last";
  info.learning_rate = 0.0018;
  info.base_learning_rate = 6e-4;
  info.learning_rate_scaling = "replicas";
  info.schedule = "5 epochs of warm-up, then cosine";
  info.model = "conv7";
  info.parameters = 19'072'400;
  info.run_folder = "runs/captcha-20260101-000000";
  return info;
}

TEST(Banner, TellsEverythingBetweenRules) {
  EXPECT_EQ(banner(captcha()), R"(================================================================================
Lockstep 0.1.0: captcha
================================================================================
devices             rank 0  Intel Xeon, 1 of 2 cores
                    rank 1  Intel Xeon, 1 of 2 cores
backend             shm (both ranks are on this host)
model               conv7, 19,072,400 parameters
total batch         512 x 3 replicas = 1,536
loader workers      12 per replica
training samples    50,030
steps per epoch     33
epochs              150
precision           bf16 autocast, channels last
learning rate       0.0018, 0.0006 scaled by replicas
schedule            5 epochs of warm-up, then cosine
run folder          runs/captcha-20260101-000000
================================================================================
)");
}

TEST(Banner, NamesEachGpuAndTheHostsIfThereAreSeveral) {
  BannerInfo info = captcha();
  info.devices = {{0, "a", "GPU 0: NVIDIA A100-PCIE-40GB"}, {1, "a", "GPU 1: NVIDIA A100-PCIE-40GB"}};
  EXPECT_THAT(banner(info), HasSubstr("devices             rank 0  GPU 0: NVIDIA A100-PCIE-40GB\n"
                                      "                    rank 1  GPU 1: NVIDIA A100-PCIE-40GB\n"));
  info.devices[1].host = "b";
  EXPECT_THAT(banner(info), HasSubstr("devices             rank 0 on a  GPU 0: NVIDIA A100-PCIE-40GB\n"
                                      "                    rank 1 on b  GPU 1: NVIDIA A100-PCIE-40GB\n"));
}

TEST(Banner, ManyEqualDevicesShareALine) {
  BannerInfo info = captcha();
  info.devices.clear();
  for (int rank = 0; rank < 32; ++rank)
    info.devices.push_back({rank, rank < 16 ? "a" : "b", rank == 20 ? "H200" : "H100"});
  EXPECT_THAT(banner(info), HasSubstr("devices             ranks 0 to 15 on a   H100\n"
                                      "                    ranks 16 to 19 on b  H100\n"
                                      "                    rank 20 on b         H200\n"
                                      "                    ranks 21 to 31 on b  H100\n"));
}

TEST(Banner, ABatchThatWasFoundSaysSo) {
  BannerInfo info = captcha();
  info.batch_origin = "found by batch_size: auto";
  EXPECT_THAT(banner(info), HasSubstr("512 x 3 replicas = 1,536, found by batch_size: auto\n"));
}

TEST(Banner, CountsAccumulationAndSaysWhatIsUnusual) {
  BannerInfo info = captcha();
  info.devices.pop_back();
  info.replicas = 1;
  info.accumulate_steps = 4;
  info.workers = 0;
  info.max_steps = 2000;
  info.learning_rate_scaling = "none";
  info.resumed_from = "runs/a/checkpoints/step-00001200";
  info.extra = {{"characters", "0-9A-Z, 4 per image"}};
  const std::string text = banner(info);
  EXPECT_THAT(text, HasSubstr("\ndevice              rank 0  Intel"));
  EXPECT_THAT(text, HasSubstr("512 x 1 replica x 4 accumulated = 2,048\n"));
  EXPECT_THAT(text, HasSubstr("loader workers      none (the training thread loads the data)\n"));
  EXPECT_THAT(text, HasSubstr("150, at most 2,000 steps\n"));
  EXPECT_THAT(text, HasSubstr("learning rate       0.0018, not scaled\n"));
  EXPECT_THAT(text, HasSubstr("characters          0-9A-Z, 4 per image\n"));
  EXPECT_THAT(text, HasSubstr("resumed from        runs/a/checkpoints/step-00001200\n"));
}

TEST(Banner, LeavesOutWhatIsNotKnown) {
  const std::string text = banner({.title = "t"});
  EXPECT_THAT(text, Not(HasSubstr("epochs")));
  EXPECT_THAT(text, Not(HasSubstr("backend")));
  EXPECT_THAT(text, Not(HasSubstr("batch")));
}

TEST(Summary, AlignsItsLabels) {
  EXPECT_EQ(summary("done", {{"a label that is longer", "1"}, {"short", "2"}}),
            std::string(80, '=') + "\ndone\n" + std::string(80, '=') +
                "\na label that is longer  1\nshort                   2\n" + std::string(80, '=') + "\n");
}

TEST(NextCommands, PutsEachOnALineThatCanBeCopied) {
  EXPECT_EQ(next_commands({{"lockstep eval x", "the accuracy"}, {"lockstep predict x", ""}}),
            "next\n  lockstep eval x\n      the accuracy\n  lockstep predict x\n");
  EXPECT_EQ(next_commands({}), "");
}

TEST(CpuInfo, ReadsTheModelNameOfProcCpuinfo) {
  EXPECT_EQ(parse_cpu_name("processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) CPU   @ 2.20GHz  \nmodel name\t: b\n"),
            "Intel(R) Xeon(R) CPU @ 2.20GHz");
  EXPECT_EQ(parse_cpu_name("processor : 0\nBogoMIPS : 50.00\n"), "CPU");
  EXPECT_EQ(parse_cpu_name(""), "CPU");
  EXPECT_GE(cpu_info().cores, 1);
}

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
  // Too long for a string's inline buffer: a freed label then shows up here, and in AddressSanitizer.
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

}  // namespace terminal_test
}  // namespace lockstep::view
