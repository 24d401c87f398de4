// SPDX-License-Identifier: Apache-2.0
// A user's program may have set a locale with a decimal comma: it changes no number that is read or written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "lockstep/base/config.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"
#include "support/comma_locale.h"
#include "support/fault_of.h"

namespace lockstep {
namespace locale_test {

using test::CommaLocale;
using test::fault_of;
using ::testing::HasSubstr;

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

}  // namespace locale_test
}  // namespace lockstep
