// SPDX-License-Identifier: Apache-2.0
#include "dashboard/access.h"

#include <gtest/gtest.h>

namespace lockstep::dashboard {
namespace access_test {

TEST(Access, TokensAreLongAndDiffer) {
  EXPECT_EQ(new_token().size(), 64U);
  EXPECT_NE(new_token(), new_token());
}

TEST(Access, OnlyTheWholeTokenIsTheToken) {
  EXPECT_TRUE(is_equal("abc", "abc"));
  for (const char* wrong : {"", "ab", "abcd", "abd", "abcabc"}) EXPECT_FALSE(is_equal(wrong, "abc")) << wrong;
  EXPECT_FALSE(is_equal("abc", ""));
}

TEST(Access, TakesAddressesAndLocalhostAndNoNameOfAStranger) {
  for (const char* own : {"127.0.0.1:80", "localhost:9", "LOCALHOST", "[::1]:80", "10.0.0.7", "gpu-a:80"}) {
    EXPECT_TRUE(is_allowed_host(own, "gpu-a")) << own;
  }
  for (const char* other : {"", "evil.example:80", "127.0.0.1.evil.example", "localhost:80.evil.example", "[::1",
                            "gpu-b", "localhost:", "127.0.0.1@evil.example"}) {
    EXPECT_FALSE(is_allowed_host(other, "gpu-a")) << other;
  }
  EXPECT_FALSE(is_allowed_host(std::string_view("127.0.0.1\0.evil.example", 23), "gpu-a")) << "C would end there";
}

TEST(Access, TakesNoRequestThatAnotherPageMade) {
  EXPECT_TRUE(is_own_origin("", "127.0.0.1:80"));
  EXPECT_TRUE(is_own_origin("http://127.0.0.1:80", "127.0.0.1:80"));
  EXPECT_FALSE(is_own_origin("http://evil.example", "127.0.0.1:80"));
  EXPECT_FALSE(is_own_origin("null", "127.0.0.1:80"));
}

}  // namespace access_test
}  // namespace lockstep::dashboard
