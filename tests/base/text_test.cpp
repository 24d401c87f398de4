// SPDX-License-Identifier: Apache-2.0
// Text for people, and numbers as text: units, non-Latin alphabets, limits and locales.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "lockstep/base/config.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "support/comma_locale.h"
#include "support/fault_of.h"

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
  EXPECT_EQ(text::parse_duration("90").error(), "'90' is not a time: write it as 90s, 45m, 1h30m, 2d or 1:30:00");
}

TEST(Text, ThousandsAreSeparated) {
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(19'072'400), "19,072,400");
  EXPECT_EQ(thousands(-1000), "-1,000");
}

TEST(Text, ACountCarriesItsNoun) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(12'000, "step"), "12,000 steps");
  EXPECT_EQ(counted(1, "box", "boxes"), "1 box");
  EXPECT_EQ(counted(2, "box", "boxes"), "2 boxes");
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

TEST(Printable, LeavesWordsOfAnyLanguageAlone) {
  const std::string words = "Größe 26.2 MB, 验证 👍\n\tnext line";
  EXPECT_EQ(printable(words), words);
  EXPECT_EQ(printable_line(words), "Größe 26.2 MB, 验证 👍\\n\\tnext line");
}

TEST(Printable, ShowsWhatWouldSteerATerminal) {
  EXPECT_EQ(printable("\x1b[2J\x1b]0;owned\a"), "\\x1b[2J\\x1b]0;owned\\x07");
  EXPECT_EQ(printable("50%\rdone\b\x7f"), "50%\\x0ddone\\x08\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "C1: a terminal takes U+009B for ESC [";
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb")
      << "right to left from here on";
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "a longer form of ESC";
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
}

TEST(Printable, IsTheSameTwice) {
  const std::string once = printable("\x1b[0m \xff");
  EXPECT_EQ(printable(once), once);
}

TEST(WithoutSecrets, HidesUserPasswordAndTheValuesOfAQuery) {
  EXPECT_EQ(without_secrets("https://ann:s3cret@host:8443/a/b.pth?token=abc&sig=d#sha256=12"),
            "https://***@host:8443/a/b.pth?token=***&sig=***#sha256=12");
  EXPECT_EQ(without_secrets("cannot fetch 'http://h/x?abc': it is late"), "cannot fetch 'http://h/x?***': it is late");
  EXPECT_EQ(without_secrets("https://h/cb#access_token=abc"), "https://h/cb#***");
  EXPECT_EQ(without_secrets("(see https://ann@host/x.)"), "(see https://***@host/x.)");
  EXPECT_EQ(without_secrets("s3://k:v@b/x ftp://u:p@h"), "s3://***@b/x ftp://***@h")
      << "of every scheme, each of several";
}

TEST(WithoutSecrets, HidesThoseOfAUrlThatWasTakenForAPath) {
  EXPECT_EQ(without_secrets("/tmp/https:/ann:s3cret@host/x is missing"), "/tmp/https:/***@host/x is missing");
  EXPECT_EQ(without_secrets("https:///ann:s3cret@host/x"), "https:///***@host/x");
  EXPECT_EQ(without_secrets("C:/a@b ends with https://"), "C:/a@b ends with https://");
}

TEST(WithoutSecrets, HidesAPasswordThatNoUrlMayHave) {
  EXPECT_EQ(without_secrets("https://ann:a@b@host/x"), "https://***@host/x");
  EXPECT_EQ(without_secrets("https://ann:se/cr?et@host/x"), "https://***@host/x");
  EXPECT_EQ(without_secrets("https://[::1]:80/a@b"), "https://[::1]:80/a@b") << "this is part of the path";
}

TEST(WithoutSecrets, LeavesWhatIsNoSecretAlone) {
  for (const char* words : {"give one of http:// or https://, or a path", "tcp://10.0.0.1:29500", "a?b=c", "x ://y?z=1",
                            "https://host/a/b.pth#sha256=12", "file:///shared/job", ""}) {
    EXPECT_EQ(without_secrets(words), words);
  }
}

TEST(Printable, ErrorsArePrintableAndShowNoSecret) {
  const DataError error("cannot read \x1b[31mhttps://a:b@h/x", "see https://h/y?k=v");
  EXPECT_EQ(error.message(), "cannot read \\x1b[31mhttps://***@h/x");
  EXPECT_STREQ(error.what(), "cannot read \\x1b[31mhttps://***@h/x\n  next  see https://h/y?k=***");
}

TEST(Printable, LogLinesArePrintableAndShowNoSecret) {
  ::testing::internal::CaptureStderr();
  log::warn("rank {} said \x1b]0;x\a of {}", 3, "https://a:b@h/x");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warn: rank 3 said \\x1b]0;x\\x07 of https://***@h/x\n");
}

}  // namespace text_test
}  // namespace lockstep::text

namespace lockstep {
namespace text_test {

using test::CommaLocale;
using test::fault_of;
using ::testing::HasSubstr;

TEST(WholeNumber, IsTheWholeTextWithinTheRange) {
  EXPECT_EQ(parse_whole("0", {}), 0);
  EXPECT_EQ(parse_whole("1000000", {}), 1'000'000);
  EXPECT_EQ(parse_whole("-3", {-5, 5}), -3);
  for (const char* wrong : {"", " 1", "1 ", "1.5", "1e3", "0x10", "one", "-1", "1000001", "4294967297",
                            "18446744073709551617", "99999999999999999999999"}) {
    EXPECT_FALSE(parse_whole(wrong, {}).has_value()) << "'" << wrong << "'";
  }
}

TEST(WholeNumber, AnotherTextIsRefusedWithNameValueAndRange) {
  EXPECT_EQ(whole_number("--master-port", "65535", {1, 65535}), 65535);
  EXPECT_EQ(fault_of<UsageError>([] { (void)whole_number("--max-restarts", "4294967297", {}); }),
            "--max-restarts is '4294967297'; it must be a whole number, 0 .. 1,000,000");
}

// A time beyond any clock's range used to become a meaningless number of milliseconds.
TEST(WholeNumber, ATimeOfTheEnvironmentHasARangeToo) {
  for (const char* wrong : {"0", "-1", "inf", "nan", "1e300", "10s"}) {
    ::setenv("LOCKSTEP_TIMEOUT", wrong, 1);
    EXPECT_EQ(fault_of<UsageError>([] { (void)env::collective_timeout(); }),
              std::string("LOCKSTEP_TIMEOUT is '") + wrong + "', not a positive number of seconds up to 1,000,000,000");
  }
  ::setenv("LOCKSTEP_TIMEOUT", "1.5", 1);
  EXPECT_EQ(env::collective_timeout(), std::chrono::milliseconds(1500));
  ::unsetenv("LOCKSTEP_TIMEOUT");
}

TEST(TimeoutVariable, IsTheOneThatSetTheLimit) {
  EXPECT_STREQ(env::timeout_variable(), "LOCKSTEP_TIMEOUT");
  ::setenv("NCCL_TIMEOUT", "60", 1);
  EXPECT_STREQ(env::timeout_variable(), "NCCL_TIMEOUT");
  ::setenv("LOCKSTEP_TIMEOUT", "30", 1);
  EXPECT_STREQ(env::timeout_variable(), "LOCKSTEP_TIMEOUT");
  ::unsetenv("NCCL_TIMEOUT");
  ::unsetenv("LOCKSTEP_TIMEOUT");
}

// A user's program may have set a locale with a decimal comma: numbers are still read and written with a point.

struct Settings {
  std::int64_t steps = 1'234'567;
  double lr = 0.25;
  double decay = 0;
  AutoInt batch{8192};
  std::vector<std::string> scales;

  ConfigFields fields() {
    ConfigFields list;
    list.add("steps", &steps, "steps");
    list.add("optimizer.lr", &lr, "rate").in({0, 1});
    list.add("optimizer.decay", &decay, "decay");
    list.add("batch", &batch, "samples");
    list.add("scales", &scales, "factors").in({0.05, 20});
    return list;
  }
};

ConfigTree tree_of(const std::vector<std::string>& assignments) {
  ConfigTree tree = ConfigTree::from_text("optimizer: {decay: 1.5e-3}\n", "x.yml");
  for (const std::string& each : assignments) tree.set(each, "--set");
  return tree;
}

TEST(CommaLocale, IsOneInWhichStreamsAndStrtodReadOtherNumbers) {
  const CommaLocale comma;
  double number = 1;
  std::istringstream("0.125") >> number;
  EXPECT_NE(number, 0.125);
  std::ostringstream written;
  written << 1234 << ' ' << 0.5;
  EXPECT_EQ(written.str(), "1.234 0,5");
  if (!comma.has_c()) GTEST_SKIP() << "localedef is missing or has no de_DE: strtod() is not tried";
  EXPECT_EQ(std::strtod("0.125", nullptr), 0);
  EXPECT_EQ(std::to_string(0.5), "0,500000");
}

TEST(CommaLocale, ChangesNoSettingThatIsRead) {
  const CommaLocale comma;
  Settings settings;
  settings.fields().bind(tree_of({"optimizer.lr=0.001", "steps=1000000", "batch=4096", "scales=[0.125, 1.5]"}));
  EXPECT_EQ(settings.lr, 0.001);
  EXPECT_EQ(settings.decay, 0.0015);
  EXPECT_EQ(settings.steps, 1'000'000);
  EXPECT_EQ(settings.batch.value(), 4096);
  EXPECT_EQ(settings.scales, (std::vector<std::string>{"0.125", "1.5"}));
  settings.fields().bind(tree_of({"optimizer.lr=.5", "steps=0x10", "optimizer.decay=.inf"}));
  EXPECT_EQ(settings.lr, 0.5);
  EXPECT_EQ(settings.steps, 16);
  EXPECT_EQ(settings.decay, std::numeric_limits<double>::infinity());
}

TEST(CommaLocale, MakesNoNumberOfWhatIsNone) {
  const CommaLocale comma;
  for (const char* each : {"optimizer.lr=0,5", "steps=1.000", "batch=4.096", "optimizer.lr=0.5x", "optimizer.lr="}) {
    EXPECT_THAT(fault_of<UsageError>([&] { Settings().fields().bind(tree_of({each})); }), HasSubstr(", not a")) << each;
  }
  EXPECT_THAT(fault_of<UsageError>([&] { Settings().fields().bind(tree_of({"scales=['0,5']"})); }),
              HasSubstr("scales has 0,5"));
}

TEST(CommaLocale, ChangesNoSettingThatIsWritten) {
  Settings settings;
  const std::string plain = settings.fields().to_yaml();
  EXPECT_THAT(plain, HasSubstr("steps: 1234567\n"));
  EXPECT_THAT(plain, HasSubstr("batch: 8192\n"));
  const CommaLocale comma;
  EXPECT_EQ(settings.fields().to_yaml(), plain);
  EXPECT_EQ(ConfigFields::value_text(&settings.steps), "1234567");
  EXPECT_EQ(ConfigFields::value_text(&settings.batch), "8192");
}

TEST(CommaLocale, ChangesNoTimeOfTheEnvironmentAndNoDuration) {
  const CommaLocale comma;
  ::setenv("LOCKSTEP_TIMEOUT", "1.5", 1);
  EXPECT_EQ(env::collective_timeout(), std::chrono::milliseconds(1500));
  ::setenv("LOCKSTEP_TIMEOUT", "1,5", 1);
  EXPECT_THROW((void)env::collective_timeout(), UsageError);
  ::unsetenv("LOCKSTEP_TIMEOUT");
  EXPECT_EQ(*text::parse_duration("1.5m"), 90);
  EXPECT_EQ(text::bytes(1'500'000), "1.5 MB");
}

TEST(ParseNumber, TakesAllOfATextOrNothing) {
  const CommaLocale comma;
  EXPECT_EQ(text::parse_number("0.125"), 0.125);
  EXPECT_EQ(text::parse_number("+2e-3"), 0.002);
  EXPECT_EQ(text::parse_number(" -7"), -7);
  EXPECT_EQ(text::parse_number("inf"), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*text::parse_number("nan")));
  for (const char* each : {"", " ", "+", "0,5", "1.5x", "+-1", "--1", "1 ", "1e999", "0x10", "one"}) {
    EXPECT_EQ(text::parse_number(each), std::nullopt) << each;
  }
}

TEST(JsonNumber, IsNullWhereJsonHasNoSuchNumber) {
  const CommaLocale comma;
  EXPECT_EQ(text::json_number(0.1), "0.1");
  EXPECT_EQ(text::json_number(1234.5), "1234.5");
  EXPECT_EQ(text::json_number(1234.5678, 2), "1234.57");
  EXPECT_EQ(text::json_number(2, 0), "2");
  for (const double each :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(text::json_number(each), "null");
    EXPECT_EQ(text::json_number(each, 3), "null");
  }
}

}  // namespace text_test
}  // namespace lockstep
