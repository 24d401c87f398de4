// SPDX-License-Identifier: Apache-2.0
// A profile as tables and as a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/view/profile.h"
#include "lockstep/view/trace_file.h"
#include "support/nested_trace.h"
#include "support/temp_dir.h"

namespace lockstep::view {
namespace profile_test {

using ::lockstep::testing::is_nested;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr std::int64_t kMs = 1'000'000;

Profile profile_of(std::vector<ProfiledCall> calls, std::int64_t milliseconds = 100) {
  return {.end_ns = milliseconds * kMs,
          .steps = 1,
          .threads = {{.name = "training loop", .id = 7, .runs_steps = true}, {.name = "loader", .id = 8}},
          .calls = std::move(calls)};
}

ProfiledCall call(const std::string& name, std::int64_t begin_ms, std::int64_t end_ms,
                  CallKind kind = CallKind::kOperator) {
  return {.name = name, .kind = kind, .begin_ns = begin_ms * kMs, .end_ns = end_ms * kMs};
}

ProfiledCall section(const std::string& name, std::int64_t begin_ms, std::int64_t end_ms) {
  return call(name, begin_ms, end_ms, CallKind::kSection);
}

OperatorRow row_of(const Profile& profile, const std::string& name) {
  for (const OperatorRow& row : operator_table(profile)) {
    if (row.name == name) return row;
  }
  return {.name = "no " + name};
}

std::int64_t part_ms(const Profile& profile, std::string_view name) {
  for (const PartRow& row : part_table(profile)) {
    if (row.name == name) return row.ns / kMs;
  }
  return -1;
}

std::int64_t sum_of_parts(const Profile& profile) {
  const std::vector<PartRow> rows = part_table(profile);
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0},
                         [](std::int64_t sum, const PartRow& row) { return sum + row.ns; });
}

TEST(OperatorTable, GivesAnOperatorTheTimeThatItsCalleesDoNotHave) {
  // Callees finish, and are recorded, before their caller.
  const Profile profile = profile_of({call("mm", 2, 7), call("t", 8, 9), call("linear", 0, 10)});
  EXPECT_EQ(row_of(profile, "linear").total_ns, 10 * kMs);
  EXPECT_EQ(row_of(profile, "linear").self_ns, 4 * kMs);
  EXPECT_EQ(row_of(profile, "mm").self_ns, 5 * kMs);
}

TEST(OperatorTable, TakesOnlyDirectCalleesAway) {
  const Profile profile = profile_of({call("c", 2, 4), call("b", 1, 5), call("a", 0, 10)});
  EXPECT_EQ(row_of(profile, "a").self_ns, 6 * kMs);
  EXPECT_EQ(row_of(profile, "b").self_ns, 2 * kMs);
}

TEST(OperatorTable, CountsARecursiveCallOnceInTheTotal) {
  const Profile profile = profile_of({call("to", 2, 6), call("to", 0, 10), call("to", 20, 25)});
  EXPECT_EQ(row_of(profile, "to").calls, 3);
  EXPECT_EQ(row_of(profile, "to").total_ns, 15 * kMs);
  EXPECT_EQ(row_of(profile, "to").self_ns, 15 * kMs);
}

TEST(OperatorTable, HasSelfTimesThatAddUpToTheTimeInsideOfOperators) {
  const Profile profile = profile_of({call("a", 1, 3), call("b", 0, 10), call("c", 10, 12), call("d", 30, 40)});
  std::int64_t sum = 0;
  for (const OperatorRow& row : operator_table(profile)) sum += row.self_ns;
  EXPECT_EQ(sum, 22 * kMs);
}

TEST(OperatorTable, LeavesOutThreadsThatRunNoStepsAndWhatIsNoOperator) {
  ProfiledCall loader = call("decode", 0, 50);
  loader.thread = 1;
  const Profile profile = profile_of({loader, section("forward", 0, 10), call("mm", 1, 2)});
  ASSERT_EQ(operator_table(profile).size(), 1U);
  EXPECT_EQ(operator_table(profile)[0].name, "mm");
}

TEST(PartTable, GivesEachMomentToTheInnermostPartSoThatPartsAddUpToTheStep) {
  const Profile profile = profile_of({section("DataLoader::next", 0, 10), section("forward", 12, 30),
                                      section("loss", 30, 32), section("DistributedDataParallel::end_backward", 55, 60),
                                      section("backward", 32, 62), section("optimizer", 70, 90)});
  EXPECT_EQ(part_ms(profile, "data"), 10);
  EXPECT_EQ(part_ms(profile, "forward"), 20);
  EXPECT_EQ(part_ms(profile, "backward"), 25);
  EXPECT_EQ(part_ms(profile, "exposed communication"), 5);
  EXPECT_EQ(part_ms(profile, "optimizer"), 20);
  EXPECT_EQ(part_ms(profile, "other"), 20);
  EXPECT_EQ(sum_of_parts(profile), 100 * kMs);
}

TEST(PartTable, CountsACollectiveAsExposedOnlyWhereTheLoopItselfRunsIt) {
  ProfiledCall hidden = call("all_reduce", 10, 30, CallKind::kCollective);
  hidden.thread = 1;
  const Profile profile = profile_of({hidden, call("all_reduce", 40, 45, CallKind::kCollective)});
  EXPECT_EQ(part_ms(profile, "exposed communication"), 5);
}

TEST(PartTable, KeepsTheForwardOfAnEvaluationInTheEvaluation) {
  const Profile profile = profile_of({section("DataLoader::next", 1, 5), section("forward of the evaluation", 5, 20),
                                      section("forward", 20, 25), section("evaluate", 0, 40)});
  EXPECT_EQ(part_ms(profile, "evaluation"), 40);
  EXPECT_EQ(part_ms(profile, "forward"), 0);
}

TEST(PartTable, KnowsTheBackwardOfALoopWithoutSectionsByTheEngine) {
  const Profile profile = profile_of({call("autograd engine", 10, 30, CallKind::kEngine)});
  EXPECT_EQ(part_ms(profile, "backward"), 20);
}

TEST(PartTable, EndsWhatRunsOnAtTheEndOfTheProfile) {
  const Profile profile = profile_of({section("save", 90, 150), section("optimizer", 120, 130)});
  EXPECT_EQ(part_ms(profile, "saving"), 10);
  EXPECT_EQ(sum_of_parts(profile), 100 * kMs);
}

TEST(LayerTable, HasForwardAndBackwardOfEachModuleAndItsOperations) {
  ProfiledCall outer = call("conv2d", 0, 10);
  outer.layer = "conv1";
  ProfiledCall inner = call("convolution", 1, 9);
  inner.layer = "conv1";
  inner.flops = 4e6;
  ProfiledCall node = call("ConvolutionBackward0", 20, 35, CallKind::kBackwardNode);
  node.layer = "conv1";
  ProfiledCall gradient = call("convolution_backward", 21, 34);
  gradient.flops = 8e6;
  const std::vector<LayerRow> rows = layer_table(profile_of({inner, outer, call("relu", 10, 12), gradient, node}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].forward_ns, 10 * kMs);
  EXPECT_EQ(rows[0].backward_ns, 15 * kMs);
  EXPECT_EQ(rows[0].flops, 12e6);
}

TEST(ProfileText, NamesWhatIsNotInAnOperatorAndTheShareOfThePeak) {
  ProfiledCall mm = call("mm", 0, 60);
  mm.flops = 5e9;
  const std::string text = profile_text(profile_of({mm}), {.flops_per_s = 100e9});
  EXPECT_THAT(text, HasSubstr("outside operators"));
  EXPECT_THAT(text, HasSubstr("40.0 %"));
  EXPECT_THAT(text, HasSubstr("5.000 GFLOP a step, 50.00 GFLOP/s, 50.0 % of the 100.00 GFLOP/s"));
}

TEST(Operations, LeaveOutThoseOfAnEvaluationBetweenTheSteps) {
  ProfiledCall trained = call("mm", 0, 60);
  trained.flops = 3e9;
  ProfiledCall evaluated = call("mm", 70, 80);
  evaluated.flops = 1e9;
  const Profile profile = profile_of({trained, evaluated, section("evaluate", 65, 90)});
  EXPECT_EQ(flops_of(profile), 3e9);
  EXPECT_DOUBLE_EQ(seconds_of(profile), 0.075);
}

TEST(ProfileText, SumsTheRowsThatItDoesNotShow) {
  const Profile profile = profile_of({call("a", 0, 10), call("b", 10, 14), call("c", 14, 17)});
  const std::string text = profile_text(profile, {}, 1);
  EXPECT_THAT(text, HasSubstr("2 more"));
  EXPECT_THAT(text, HasSubstr("7.000"));
  EXPECT_THAT(text, Not(HasSubstr("memcpy")));
}

MemoryEvent taken(std::uintptr_t address, std::int64_t bytes, std::int64_t at_ms) {
  return {.address = address, .bytes = bytes, .at_ns = at_ms * kMs};
}

MemoryEvent given_back(std::uintptr_t address, std::int64_t at_ms) {
  return {.address = address, .bytes = -1, .at_ns = at_ms * kMs};
}

TEST(MemoryPeak, CountsWhatLivesAtOnceAndNamesItsOutermostOperatorAndLayer) {
  ProfiledCall layer = call("linear", 0, 10);
  layer.layer = "head";
  Profile profile = profile_of({call("empty", 2, 4), layer, section("forward", 0, 10), section("backward", 10, 20),
                                call("MmBackward0", 10, 20, CallKind::kBackwardNode)});
  profile.memory = {taken(1, 100, 3), taken(2, 40, 5),   given_back(2, 9),
                    taken(3, 50, 12), given_back(1, 15), taken(4, 60, 16)};
  const MemoryPeak peak = memory_peak(profile);
  EXPECT_EQ(peak.bytes, 150);
  EXPECT_EQ(peak.section, "backward");
  ASSERT_EQ(peak.rows.size(), 2U);
  EXPECT_EQ(peak.rows[0].made_by, "linear");
  EXPECT_EQ(peak.rows[0].layer, "head");
  EXPECT_EQ(peak.rows[0].bytes, 100);
  EXPECT_EQ(peak.rows[1].made_by, "MmBackward0");
  EXPECT_EQ(peak.rows[1].tensors, 1);
}

TEST(MemoryPeak, LeavesOutWhatIsOlderThanTheProfile) {
  Profile profile = profile_of({});
  profile.memory = {given_back(9, 1), taken(1, 10, 2), given_back(1, 3)};
  EXPECT_EQ(memory_peak(profile).bytes, 10);
  EXPECT_EQ(memory_peak(profile_of({})).bytes, 0);
}

TEST(ProfileText, ShowsTheLargestTensors) {
  Profile profile = profile_of({call("linear", 0, 10), section("forward", 0, 10)});
  EXPECT_THAT(profile_text(profile, {}), Not(HasSubstr("tensors created by")));
  profile.memory = {taken(1, 3'000'000, 3), taken(2, 1'000'000, 30)};
  const std::string text = profile_text(profile, {});
  EXPECT_THAT(text, HasSubstr("took at most 4.0 MB"));
  EXPECT_THAT(text, ::testing::ContainsRegex("linear +1 +3.0 MB +75.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("outside operators +1 +1.0 MB +25.0 %"));
}

DeviceCall kernel(const char* name, std::int64_t begin_ms, std::int64_t end_ms) {
  return {.name = name, .begin_ns = begin_ms * kMs, .end_ns = end_ms * kMs};
}

/// Two kernels one after another, one alongside the second, and one after a pause.
Profile profile_of_gpu() {
  Profile profile = profile_of({});
  profile.device = {kernel("void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::Add<"
                           "c10::BFloat16> >(int, float*)",
                           30, 40),
                    kernel("sm90_xmma_fprop_implicit_gemm_bf16", 0, 10),
                    kernel("Memcpy HtoD (Pinned -> Device)", 12, 18),
                    kernel("sm90_xmma_fprop_implicit_gemm_bf16", 10, 20)};
  return profile;
}

TEST(DeviceUse, CountsTimeInWhichAKernelRunsAndThePausesBetween) {
  const DeviceUse use = device_use(profile_of_gpu());
  EXPECT_EQ(use.busy_ns, 30 * kMs);
  EXPECT_EQ(use.gaps, 1);
  ASSERT_EQ(use.rows.size(), 3U);
  EXPECT_EQ(use.rows[0].name, "sm90_xmma_fprop_implicit_gemm_bf16");
  EXPECT_EQ(use.rows[0].calls, 2);
  EXPECT_EQ(use.rows[0].ns, 20 * kMs);
  EXPECT_EQ(use.rows[1].name, "vectorized_elementwise_kernel<4, Add<BFloat16> >");
  EXPECT_EQ(use.rows[2].name, "Memcpy HtoD (Pinned -> Device)");
  ASSERT_EQ(use.kinds.size(), 3U);
  EXPECT_EQ(use.kinds[0].name, "products and convolutions");
  EXPECT_EQ(use.kinds[1].name, "element by element");
  EXPECT_EQ(use.kinds[2].name, "copies");
}

TEST(ProfileText, SaysIfTheHostOrTheGpuBoundsAStep) {
  EXPECT_THAT(profile_text(profile_of({}), {}), Not(HasSubstr("GPU")));
  Profile profile = profile_of_gpu();  // of 100 ms
  EXPECT_THAT(profile_text(profile, {}), HasSubstr("the GPU computes for 30.0 % of a step, with 1 pause: the host"));
  profile.device.push_back(kernel("nvjet", 40, 100));
  EXPECT_THAT(profile_text(profile, {}), HasSubstr("the GPU computes for 90.0 % of a step, with 1 pause: the GPU"));
}

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
  Profile other = rank_profile(1, 90'000'500'000);  // the same moment, but half a microsecond later
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
  EXPECT_THAT(refusal(), HasSubstr("rank-1.json is not a complete trace of a rank: its JSON ends too early"));
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
  EXPECT_THAT(refusal(), HasSubstr("rank-0.json is not a complete trace"));
}

TEST_F(MergeTraces, SayHowTracesAreMadeWhereThereIsNone) { EXPECT_THAT(refusal(), HasSubstr("no trace of a rank")); }

}  // namespace profile_test
}  // namespace lockstep::view
