// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <gtest/gtest.h>

namespace lockstep::text {
namespace text_test {

TEST(Text, BytesCarryTheirUnit) {
  EXPECT_EQ(bytes(0), "0 B");
  EXPECT_EQ(bytes(999), "999 B");
  EXPECT_EQ(bytes(1000), "1.0 kB");
  EXPECT_EQ(bytes(26'214'400), "26.2 MB");
  EXPECT_EQ(bytes(999'990'000), "1.0 GB");
}

TEST(Text, DurationsGrowFromSecondsToHours) {
  EXPECT_EQ(duration(0.81), "0.8 s");
  EXPECT_EQ(duration(42.4), "42 s");
  EXPECT_EQ(duration(187), "3:07");
  EXPECT_EQ(duration(3729), "1:02:09");
}

TEST(Text, ATimeIsReadAsPeopleAndSlurmWriteIt) {
  const std::pair<const char*, double> good[] = {
      {"90s", 90},       {"45m", 2700},    {"1h30m", 5400},        {"2d", 172800},      {"0.5s", 0.5},
      {"1:30:00", 5400}, {"00:00:10", 10}, {"1-12:00:00", 129600}, {"1-12:30", 131400},
  };
  for (const auto& [text, seconds] : good) EXPECT_EQ(text::parse_duration(text).value(), seconds) << text;
  for (const char* bad : {"", "90", "1:30", "s", "1x", "1h30", "-5s", "1:2:3:4", "1-", "-1:00:00", "1:xx:00", "inf",
                          "1h 30m", "nan:0:0"}) {
    EXPECT_FALSE(text::parse_duration(bad).ok()) << bad;
  }
  EXPECT_EQ(text::parse_duration("90").error(), "'90' is no time: write it as 90s, 45m, 1h30m, 2d or 1:30:00");
}

TEST(Text, ThousandsAreSeparated) {
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(19'072'400), "19,072,400");
  EXPECT_EQ(thousands(-1000), "-1,000");
}

TEST(Text, TheNearestSpellingIsSuggestedAndAFarOneIsNot) {
  EXPECT_EQ(nearest("batchsize", {"epochs", "batch_size", "seed"}), "batch_size");
  EXPECT_EQ(nearest("qqqqqq", {"epochs", "batch_size", "seed"}), "");
  EXPECT_EQ(nearest("--nproc", {"--seed", "--nproc-per-node"}), "--nproc-per-node") << "what was not typed to its end";
  EXPECT_EQ(nearest("a", {"amplitude"}), "") << "a letter says too little";
  EXPECT_EQ(did_you_mean("ephocs", {"epochs"}), " (did you mean 'epochs'?)");
}

TEST(Text, AnErrorOfLibtorchLosesItsStack) {
  EXPECT_EQ(without_backtrace("bad shape\nException raised from meta at x.cpp:26 (most recent call first):\nframe #0"),
            "bad shape");
  EXPECT_EQ(without_backtrace("bad shape"), "bad shape");
}

TEST(Text, JsonStringsEscapeControlsAndReplaceBrokenUtf8) {
  EXPECT_EQ(json_quote("a\"b\\c\n"), R"("a\"b\\c\n")");
  EXPECT_EQ(json_quote("验证"), "\"验证\"");
  EXPECT_EQ(json_quote("\x1b[m \x7f \xc2\x9b"), R"("\u001b[m \u007f \u009b")") << "for terminals, too";
  EXPECT_EQ(json_quote(std::string("\x01\xff", 2)), "\"\\u0001\\ufffd\"");
}

}  // namespace text_test
}  // namespace lockstep::text
