// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/printable.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::text {
namespace printable_test {

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

}  // namespace printable_test
}  // namespace lockstep::text
