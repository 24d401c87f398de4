// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "lockstep/base/file_system.h"

namespace lockstep::view {
namespace terminal_test {

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

}  // namespace terminal_test
}  // namespace lockstep::view
