// SPDX-License-Identifier: Apache-2.0
// One record of a failure, whoever wrote it and wherever it went.
#include "lockstep/base/failure_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace failure_record_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

FailureRecord through_json(const FailureRecord& record) { return parse_failure(to_json(record)).value(); }

TEST(FailureRecord, IsTheSameAfterItsJson) {
  const FailureRecord record{.kind = FailureKind::kTimeout,
                             .type = "TimeoutError",
                             .message = "rank 2 is late\n  waiting for   rank 2",
                             .hint = "look at rank 2",
                             .rank = 1,
                             .host = "host-a",
                             .time_ns = 1'700'000'000'000'000'000};
  const FailureRecord read = through_json(record);
  EXPECT_EQ(read.kind, record.kind);
  EXPECT_EQ(read.type, record.type);
  EXPECT_EQ(read.message, record.message);
  EXPECT_EQ(read.hint, record.hint);
  EXPECT_EQ(read.rank, record.rank);
  EXPECT_EQ(read.host, record.host);
  EXPECT_EQ(read.time_ns, record.time_ns);
}

TEST(FailureRecord, BecomesTheErrorThatItWas) {
  EXPECT_THROW(rethrow(through_json(record_of(DataError("broken image", "look at it")))), DataError);
  EXPECT_THROW(rethrow(through_json(record_of(MismatchError("the ranks differ")))), MismatchError);
  EXPECT_THROW(rethrow(through_json(record_of(MismatchError("the ranks differ")))), UsageError);
  try {
    rethrow(through_json(record_of(IoError("the disk is full", "remove something"))));
  } catch (const IoError& error) {
    EXPECT_EQ(error.message(), "the disk is full");
    EXPECT_EQ(error.hint(), "remove something");
  }
}

TEST(FailureRecord, KnowsTheKindByTheTypeAndByNoText) {
  EXPECT_EQ(record_of(UsageError("the ranks called different collectives")).kind, FailureKind::kFailed);
  EXPECT_EQ(record_of(MismatchError("anything")).kind, FailureKind::kMismatch);
  EXPECT_EQ(record_of(PeerError("rank 1 died")).kind, FailureKind::kPeer);
  EXPECT_EQ(record_of(TimeoutError("late")).kind, FailureKind::kTimeout);
  EXPECT_EQ(record_of(std::runtime_error("theirs")).kind, FailureKind::kFailed);
}

TEST(FailureRecord, OfAnExceptionOfTheProgramsOwnNamesItsType) {
  EXPECT_THAT(words_of(record_of(std::runtime_error("theirs"))), HasSubstr("theirs"));
  EXPECT_EQ(words_of(record_of(DataError("broken"))), "DataError: broken");
  EXPECT_EQ(words_of({.message = "killed by signal 9"}), "killed by signal 9");
}

TEST(FailureRecord, IsReadWhereOnlyWordsWereWritten) {
  const auto record = parse_failure(R"({"rank": 3, "host": "host", "what": "say \"no\""})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->rank, 3);
  EXPECT_THAT(words_of(*record), StartsWith("say \"no\""));
  for (const char* bad : {"", "[]", "{", R"({"rank":"x"})", R"({"host":"h"})"}) EXPECT_FALSE(parse_failure(bad)) << bad;
}

TEST(FailureRecord, SteersNoTerminalAndShowsNoSecret) {
  const auto record = parse_failure(
      R"({"rank": 1, "host": "\u001b[2Jhost\n", "what": "\u001b]0;owned\u0007 of https://ann:s3cret@h/x?token=t"})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->host, "\\x1b[2Jhost\\n");
  EXPECT_EQ(words_of(*record), "\\x1b]0;owned\\x07 of https://***@h/x?token=***");
}

}  // namespace failure_record_test
}  // namespace lockstep
