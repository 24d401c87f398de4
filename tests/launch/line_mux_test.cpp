// SPDX-License-Identifier: Apache-2.0
#include "launch/output/line_mux.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace line_mux_test {

// A console whose two streams land in one text, as on a terminal.
class Screen {
 public:
  explicit Screen(const MuxOptions& options) : mux(options, [this](int, std::string_view bytes) { text += bytes; }) {}
  std::string take() { return std::exchange(text, ""); }

  std::string text;
  LineMux mux;
};

TEST(LineMux, LinesAreWholeWhateverThePieces) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(0, 0, "hel");
  screen.mux.feed(1, 0, "other\n");
  screen.mux.feed(0, 0, "lo\nnext");
  EXPECT_EQ(screen.take(), "[1]: other\n[0]: hello\n");
  screen.mux.finish(0, 0);
  EXPECT_EQ(screen.take(), "[0]: next\n");
  screen.mux.finish(0, 0);
  EXPECT_EQ(screen.take(), "");
}

// Each piece is written by a call of its own.
TEST(LineMux, TheLinesOfOneReadingAreOnePiece) {
  std::vector<std::string> pieces;
  LineMux mux({.style = ConsoleStyle::kPrefix}, [&](int, std::string_view bytes) { pieces.emplace_back(bytes); });
  mux.feed(0, 0, "be");
  mux.feed(0, 0, "gun\na\nb\nc\nrest");
  EXPECT_EQ(pieces, (std::vector<std::string>{"[0]: begun\n[0]: a\n[0]: b\n[0]: c\n"}));
}

TEST(LineMux, AnEmptyLineIsALine) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(0, 0, "a\n\nb\r\n");
  EXPECT_EQ(screen.take(), "[0]: a\n[0]: \n[0]: b\n");
}

TEST(LineMux, OfABarAFileGetsOnlyTheLastPiece) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(0, 1, "\r10%");
  screen.mux.feed(0, 1, "\r20%");
  screen.mux.feed(1, 1, "10%\r");
  screen.mux.feed(1, 1, "20%\r");
  EXPECT_EQ(screen.take(), "");
  screen.mux.feed(0, 1, "\r100%\n");
  screen.mux.feed(1, 1, "100%\r\n");
  EXPECT_EQ(screen.take(), "[0]: 100%\n[1]: 100%\n");
}

TEST(LineMux, ATerminalShowsTheBarOfRankZeroBelowTheLines) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(0, 1, "\r10%");
  EXPECT_EQ(screen.take(), "\r\033[K10%");
  screen.mux.feed(1, 1, "\r11%");
  EXPECT_EQ(screen.take(), "");
  screen.mux.feed(1, 0, "hello\n");
  EXPECT_EQ(screen.take(), "\r\033[K[1]: hello\n10%");
  screen.mux.feed(0, 1, "\r20%\r");
  EXPECT_EQ(screen.take(), "\r\033[K20%");
  screen.mux.feed(0, 1, "30%\n");
  EXPECT_EQ(screen.take(), "\r\033[K[0]: 30%\n");
}

TEST(LineMux, ABarWiderThanTheTerminalIsCut) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(0, 1, "\r\u2588\u2588" + std::string(30, 'x'));
  EXPECT_EQ(screen.take(), "\r\033[K\u2588\u2588" + std::string(18, 'x'));
}

TEST(LineMux, AQuestionShowsAfterAMoment) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(1, 0, "go on? ");
  EXPECT_TRUE(screen.mux.wants_idle());
  screen.mux.idle();
  EXPECT_EQ(screen.take(), "\r\033[K[1]: go on? ");
  EXPECT_FALSE(screen.mux.wants_idle());
  screen.mux.feed(1, 0, "yes\n");
  EXPECT_EQ(screen.take(), "\r\033[K[1]: go on? yes\n");
}

TEST(LineMux, MainRawPassesRankZeroAndTheOthersErrors) {
  Screen screen({.style = ConsoleStyle::kMainRaw});
  screen.mux.feed(0, 0, "epoch 1\n");
  screen.mux.feed(1, 0, "not shown\n");
  screen.mux.feed(1, 1, "shown\n");
  EXPECT_EQ(screen.take(), "epoch 1\n[1]: shown\n");
}

TEST(LineMux, MainRawLeavesTheOthersErrorsToTheReport) {
  Screen screen({.style = ConsoleStyle::kMainRaw});
  screen.mux.feed(1, 1, "warning: slow disk\nerror: no such image\n  next  look\nnote: after it\n");
  screen.mux.feed(0, 1, "error: no such image\n  next  look\n");
  EXPECT_EQ(screen.take(), "[1]: warning: slow disk\n[1]: note: after it\nerror: no such image\n  next  look\n");
}

TEST(LineMux, AnErrorThatEveryRankHasIsPrintedOnce) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(1, 1, "error: no such image\n  next  look\nbye\n");
  screen.mux.feed(0, 1, "error: no such image\n  next  look\nbye\n");
  screen.mux.feed(2, 1, "error: another\n  next  look\n");
  EXPECT_EQ(screen.take(),
            "[1]: error: no such image\n[1]:   next  look\n[1]: bye\n[0]: bye\n"
            "[2]: error: another\n[2]:   next  look\n");
  screen.mux.feed(1, 1, "error: no such image\n");
  EXPECT_EQ(screen.take(), "[1]: error: no such image\n") << "what one rank says twice is shown twice";
}

TEST(LineMux, AnErrorInColourIsTheSameError) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 60});
  screen.mux.feed(0, 1, "\033[1;31merror:\033[0m no such image\n  next  look\n");
  screen.mux.feed(1, 1, "error: no such image\n  next  look\n");
  EXPECT_EQ(screen.take(), "[0]: \033[1;31merror:\033[0m no such image\n[0]:   next  look\n");
}

TEST(LineMux, MainRawRestoresTheBarAfterAnothersLine) {
  Screen screen({.style = ConsoleStyle::kMainRaw, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(0, 1, "title\n\r\033[32m10%\033[0m");
  EXPECT_EQ(screen.take(), "title\n\r\033[32m10%\033[0m");
  screen.mux.feed(1, 1, "warn\n");
  EXPECT_EQ(screen.take(), "\r\033[K[1]: warn\n\033[32m10%\033[0m");
  screen.mux.feed(0, 1, "\r20%\n");
  EXPECT_EQ(screen.take(), "\r20%\n");
  screen.mux.feed(1, 1, "warn\n");
  EXPECT_EQ(screen.take(), "[1]: warn\n");
}

TEST(LineMux, AnEndlessLineDoesNotFillTheMemory) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  for (int i = 0; i < 100; ++i) screen.mux.feed(0, 0, std::string(1000, 'x'));
  EXPECT_GT(screen.take().size(), 60000U);
}

}  // namespace line_mux_test
}  // namespace lockstep::launch
