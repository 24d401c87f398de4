// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "support/nested_trace.h"
#include "support/temp_dir.h"

namespace lockstep::view {
namespace trace_file_test {

using ::lockstep::testing::is_nested;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Profile rank_profile(int rank, std::int64_t begin_ns) {
  return {.rank = rank,
          .world_size = 2,
          .host = rank == 0 ? "alpha" : "beta",
          .begin_ns = begin_ns,
          .end_ns = begin_ns + 1000,
          .steps = 1,
          .threads = {{.name = "training \"loop\"", .id = 7, .runs_steps = true}, {.name = "communicate", .id = 8}},
          .calls = {{.name = "mm", .begin_ns = begin_ns + 100, .end_ns = begin_ns + 250, .layer = "head"},
                    {.name = "linear", .begin_ns = begin_ns + 1, .end_ns = begin_ns + 300},
                    {.name = "all_reduce",
                     .kind = CallKind::kCollective,
                     .thread = 1,
                     .begin_ns = begin_ns + 200,
                     .end_ns = begin_ns + 900,
                     .bytes = 4096,
                     .sequence = 12,
                     .bucket = 1,
                     .buckets = 3}}};
}

Json events_of(const std::string& text) { return Json::parse(text).at("traceEvents"); }

Json event_named(const Json& events, const std::string& name) {
  for (const Json& event : events) {
    if (event.at("name") == name) return event;
  }
  return {};
}

class MergeTraces : public ::testing::Test {
 protected:
  void SetUp() override { FileSystem::system().make_folder(folder_.path() / "trace"); }
  void write(int rank, const std::string& text) const {
    write_file_atomically(FileSystem::system(), folder_.path() / "trace" / trace_file_name(rank), text);
  }
  [[nodiscard]] MergedTrace merge() const { return merge_traces(FileSystem::system(), folder_.path()); }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)merge();
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }

  test::TempDir folder_;
};

TEST(TraceText, IsJsonWithTheNamesOfRankAndThreads) {
  const Json json = Json::parse(trace_text(rank_profile(1, 5000)));
  EXPECT_EQ(json.at("otherData").at("world_size"), 2);
  const Json& events = json.at("traceEvents");
  EXPECT_EQ(event_named(events, "process_name").at("args").at("name"), "rank 1 (beta)");
  EXPECT_EQ(event_named(events, "thread_name").at("args").at("name"), "training \"loop\"");
}

TEST(TraceText, HasCollectivesOnATrackOfTheirOwnWithBucketBytesAndSequence) {
  const Json events = events_of(trace_text(rank_profile(0, 5000)));
  const Json event = event_named(events, "all_reduce bucket 1 of 3");
  EXPECT_EQ(event.at("args").at("bucket"), 1);
  EXPECT_EQ(event.at("args").at("bytes"), 4096);
  EXPECT_EQ(event.at("args").at("sequence"), 12);
  EXPECT_NE(event.at("tid"), 7);
  EXPECT_NE(event.at("tid"), 8);
}

TEST(TraceText, KeepsEveryNanosecond) {
  const Json event = event_named(events_of(trace_text(rank_profile(0, 7'000'000'123))), "head mm");
  EXPECT_DOUBLE_EQ(event.at("ts").get<double>(), 7'000'000.223);
  EXPECT_DOUBLE_EQ(event.at("dur").get<double>(), 0.150);
}

TEST(TraceText, HasCallsThatLieInsideOfEachOther) { EXPECT_TRUE(is_nested(events_of(trace_text(rank_profile(0, 0))))); }

TEST_F(MergeTraces, PutsTheRanksOntoTheClockOfRankZero) {
  write(0, trace_text(rank_profile(0, 1'000'000)));
  Profile other = rank_profile(1, 90'000'500'000);  // the same moment, half a microsecond later
  other.clock_offset_ns = 90'000'500'000 - 1'000'500;
  other.clock_error_ns = 20'000;
  write(1, trace_text(other));
  const MergedTrace merged = merge();
  EXPECT_EQ(merged.ranks, 2);
  EXPECT_EQ(merged.hosts, 2);
  EXPECT_DOUBLE_EQ(merged.error_us, 20);
  std::map<int, double> begins;
  for (const Json& event : events_of(merged.text)) {
    if (event.at("name") == "linear") begins[event.at("pid")] = event.at("ts");
  }
  EXPECT_DOUBLE_EQ(begins.at(0), 0);
  EXPECT_NEAR(begins.at(1), 0.5, 0.002);
  EXPECT_TRUE(is_nested(events_of(merged.text)));
}

TEST_F(MergeTraces, NameTheRanksWhoseFilesAreMissing) {
  write(1, trace_text(rank_profile(1, 0)));
  EXPECT_THAT(refusal(), HasSubstr("has 1 of 2 traces: rank 0 is missing"));
}

TEST_F(MergeTraces, NameTheFileThatIsTorn) {
  write(0, trace_text(rank_profile(0, 0)));
  const std::string whole = trace_text(rank_profile(1, 0));
  write(1, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal(), HasSubstr("rank-1.json is no whole trace of a rank: its JSON ends too early"));
}

TEST_F(MergeTraces, RefuseAFileOfAnotherRun) {
  write(0, trace_text(rank_profile(0, 0)));
  Profile other = rank_profile(1, 0);
  other.world_size = 3;
  write(1, trace_text(other));
  EXPECT_THAT(refusal(), HasSubstr("rank 1 of 3"));
}

TEST_F(MergeTraces, RefuseJsonThatIsNoTrace) {
  write(0, R"({"otherData": {"rank": "zero"}, "traceEvents": []})");
  EXPECT_THAT(refusal(), HasSubstr("rank-0.json is no whole trace"));
}

TEST_F(MergeTraces, SayHowTracesAreMadeWhereThereIsNone) { EXPECT_THAT(refusal(), HasSubstr("no trace of a rank")); }

}  // namespace trace_file_test
}  // namespace lockstep::view
