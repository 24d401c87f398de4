// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/whole_number.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "support/fault_of.h"

namespace lockstep {
namespace whole_number_test {

using test::fault_of;

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

// A time that no clock can hold was a number of milliseconds without a meaning.
TEST(WholeNumber, ATimeOfTheEnvironmentHasARangeToo) {
  for (const char* wrong : {"0", "-1", "inf", "nan", "1e300", "10s"}) {
    ::setenv("LOCKSTEP_TIMEOUT", wrong, 1);
    EXPECT_EQ(
        fault_of<UsageError>([] { (void)env::collective_timeout(); }),
        std::string("LOCKSTEP_TIMEOUT is '") + wrong + "', not a positive number of seconds, 1,000,000,000 at most");
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

}  // namespace whole_number_test
}  // namespace lockstep
