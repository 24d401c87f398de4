// SPDX-License-Identifier: Apache-2.0
// The kernel of each layer, and the known slow cases.
#include "lockstep/view/kernel_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace kernel_report_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::int64_t kMs = 1'000'000;

/// 100 GFLOP/s in float32, 200 in bfloat16, 10 GB/s copied.
KernelMachine machine() {
  return {.processor = "a processor",
          .copied_bytes_per_s = 10e9,
          .float32_flops_per_s = 100e9,
          .bfloat16_flops_per_s = 200e9,
          .lockstep_vectors = "AVX-512",
          .aten_vectors = "AVX2",
          .blas = "OpenBLAS",
          .blas_kernels = "Cooperlake",
          .avx512 = true,
          .bfloat16_vectors = true,
          .libtorch = "1.13.1"};
}

CallInput tensor(std::vector<std::int64_t> sizes, const std::string& type = "float32") {
  return {.type = type, .sizes = std::move(sizes)};
}
CallInput numbers(std::vector<std::int64_t> values) { return {.type = "numbers", .sizes = std::move(values)}; }

ProfiledCall call(const std::string& name, std::int64_t begin_ms, std::int64_t end_ms,
                  std::vector<CallInput> inputs = {}) {
  return {.name = name, .begin_ns = begin_ms * kMs, .end_ns = end_ms * kMs, .inputs = std::move(inputs)};
}

ProfiledCall section(const std::string& name, std::int64_t begin_ms, std::int64_t end_ms) {
  ProfiledCall made = call(name, begin_ms, end_ms);
  made.kind = CallKind::kSection;
  return made;
}

/// A backward node of a layer whose forward began at `made_ms`.
ProfiledCall node(std::int64_t made_ms, std::int64_t begin_ms, std::int64_t end_ms) {
  ProfiledCall made = call("Node", begin_ms, end_ms);
  made.kind = CallKind::kBackwardNode;
  made.made_ns = made_ms * kMs;
  return made;
}

Profile profile_of(std::vector<ProfiledCall> calls, std::int64_t steps = 1) {
  return {.end_ns = 100 * kMs,
          .steps = steps,
          .threads = {{.name = "training loop", .id = 7, .runs_steps = true}},
          .calls = std::move(calls)};
}

const std::vector<std::int64_t> kImages = {4, 64, 30, 80};
const std::vector<std::int64_t> kFilters = {128, 64, 3, 3};

/// The first row of a profile whose forward has these calls, starting at 1 ms.
KernelRow row_of(std::vector<ProfiledCall> calls, const KernelMachine& used_machine = machine()) {
  calls.insert(calls.begin(), section("forward", 0, 50));
  const std::vector<KernelRow> rows = kernel_table(profile_of(std::move(calls)), used_machine);
  return rows.empty() ? KernelRow{.layer = "none"} : rows.front();
}

KernelRow convolution_by(const std::string& name, std::vector<CallInput> inputs) {
  return row_of(
      {call("lockstep::conv2d", 1, 9, {tensor(kImages), tensor(kFilters)}), call(name, 2, 8, std::move(inputs))});
}

TEST(KernelTable, NamesTheKernelThatComputedAConvolution) {
  const auto pair_of = [](const std::string& type) { return std::vector{tensor(kImages, type), tensor(kFilters)}; };
  auto large = pair_of("float32");
  large.push_back(numbers({4}));
  EXPECT_EQ(convolution_by("lockstep::winograd_convolution", large).kernel, "Winograd 4x4");
  auto strided = pair_of("bfloat16");
  strided.push_back(numbers({2, 2, 1, 1, 1, 1}));
  const KernelRow direct = convolution_by("lockstep::direct_convolution", strided);
  EXPECT_EQ(direct.kernel, "direct");
  EXPECT_EQ(direct.type, "bfloat16");
  EXPECT_EQ(direct.instructions, "AVX-512 bf16");
  EXPECT_EQ(direct.layer, "conv 3x3 /2, 4x64x30x80 to 128");
  EXPECT_FALSE(direct.is_plain_3x3);
  const KernelRow theirs = convolution_by("aten::mkldnn_convolution", pair_of("float32"));
  EXPECT_EQ(theirs.kernel, "oneDNN");
  EXPECT_EQ(theirs.maker, KernelMaker::kOneDnn);
  EXPECT_EQ(theirs.layer, "conv 3x3, 4x64x30x80 to 128");
  EXPECT_EQ(convolution_by("aten::thnn_conv2d", pair_of("float32")).kernel, "im2col");
}

TEST(KernelTable, ReadsAConvolutionsGeometryFromLibtorchsOperator) {
  const std::vector<CallInput> all = {tensor(kImages), tensor({128, 64, 1, 1}), {}, numbers({2, 2}),
                                      numbers({0, 0}), numbers({1, 1}),         {}, numbers({0, 0}),
                                      numbers({1})};
  const KernelRow row = row_of({call("aten::conv2d", 1, 9, {tensor(kImages), tensor({128, 64, 1, 1})}),
                                call("aten::convolution", 2, 8, all), call("aten::mkldnn_convolution", 3, 7, all)});
  EXPECT_EQ(row.layer, "conv 1x1 /2, 4x64x30x80 to 128");
  const double read = 4.0 * (4 * 64 * 30 * 80 + 128 * 64);
  const double written = 4.0 * 4 * 128 * 15 * 40;
  EXPECT_EQ(row.forward.bytes, read + written);
}

TEST(KernelTable, NamesWhoMultipliesALinearLayer) {
  const std::vector<CallInput> inputs = {tensor({750, 128}), tensor({512, 128})};
  const KernelRow ours =
      row_of({call("lockstep::linear", 1, 4, inputs),
              call("lockstep::linear_product", 2, 3, {tensor({750, 128}, "bfloat16"), tensor({512, 128})})});
  EXPECT_EQ(ours.kernel, "direct");
  EXPECT_EQ(ours.layer, "linear, 750x128 to 512");
  EXPECT_EQ(ours.type, "bfloat16") << "that of the product, not of what came in";
  const std::vector<CallInput> product = {tensor({512}), tensor({750, 128}), tensor({128, 512})};
  const KernelRow theirs = row_of({call("aten::linear", 1, 4, inputs), call("aten::addmm", 2, 3, product)});
  EXPECT_EQ(theirs.kernel, "OpenBLAS");
  EXPECT_EQ(theirs.instructions, "Cooperlake");
  const std::vector<CallInput> rounded = {tensor({512}, "bfloat16"), tensor({750, 128}, "bfloat16")};
  const std::vector<ProfiledCall> calls = {call("aten::linear", 1, 4, inputs), call("aten::addmm", 2, 3, rounded)};
  EXPECT_EQ(row_of(calls).kernel, "oneDNN");
  KernelMachine old = machine();
  old.avx512 = false;
  EXPECT_EQ(row_of(calls, old).kernel, "ATen");
  const KernelRow fused = row_of({call("lockstep::linear_relu", 1, 4, inputs), call("aten::addmm", 2, 3, product)});
  EXPECT_EQ(fused.layer, "linear + ReLU, 750x128 to 512");
  EXPECT_EQ(fused.kernel, "OpenBLAS");
}

TEST(KernelTable, DistinguishesFusedLayersFromLibtorchs) {
  const KernelRow pooled =
      row_of({call("lockstep::batch_norm_relu", 1, 2, {tensor(kImages), tensor({64}), numbers({1})})});
  EXPECT_EQ(pooled.layer, "norm + ReLU + pool, 4x64x30x80");
  EXPECT_EQ(pooled.kernel, "fused");
  EXPECT_EQ(pooled.kind, LayerKind::kNorm);
  EXPECT_EQ(pooled.in, 64);
  const KernelRow norm = row_of({call("aten::batch_norm", 1, 2, {tensor(kImages), tensor({64})})});
  EXPECT_EQ(norm.kernel, "ATen");
  EXPECT_EQ(norm.instructions, "AVX2");
}

TEST(KernelTable, CountsWhatALayersBackwardTakesAndLeavesOutOtherParts) {
  std::vector<CallInput> inputs = {tensor(kImages), tensor(kFilters)};
  ProfiledCall forward =
      call("lockstep::winograd_convolution", 2, 8, {tensor(kImages), tensor(kFilters), numbers({2})});
  forward.flops = 1e9;
  ProfiledCall inner = call("lockstep::winograd_convolution_backward", 21, 29);
  inner.flops = 2e9;
  const std::vector<KernelRow> rows =
      kernel_table(profile_of({section("forward", 0, 10), call("lockstep::conv2d", 1, 9, inputs), forward,
                               node(1, 20, 30), inner, node(0, 31, 33), call("aten::add_", 50, 60, {tensor({1000})})}),
                   machine());
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].forward.ns, 8 * kMs);
  EXPECT_EQ(rows[0].backward.ns, 10 * kMs);
  EXPECT_EQ(rows[0].forward.flops, 1e9);
  EXPECT_EQ(rows[0].backward.flops, 2e9);
  EXPECT_NEAR(rows[0].bound_ns, 30.0 * kMs, 1);
  EXPECT_EQ(rows[0].lost_ns(), 0) << "Winograd's transform is faster than the direct sum at its peak";
}

TEST(KernelTable, SumsEqualLayersOverStepsAndPutsTheGreatestLossFirst) {
  const std::vector<CallInput> small = {tensor({10})};
  const std::vector<KernelRow> rows = kernel_table(
      profile_of({section("forward", 0, 20), call("aten::relu", 1, 3, small), call("aten::relu", 4, 6, small),
                  call("aten::sigmoid", 7, 17, small), section("forward", 40, 60), call("aten::relu", 41, 43, small),
                  call("aten::relu", 44, 46, small), call("aten::sigmoid", 47, 57, small)},
                 2),
      machine());
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].layer, "sigmoid, 10");
  EXPECT_EQ(rows[1].calls, 2);
  EXPECT_EQ(rows[1].forward.ns, 4 * kMs);
}

TEST(KernelTable, KnowsNoBoundOfAnOperatorThatItDoesNotKnow) {
  const KernelRow row = row_of({call("aten::embedding", 1, 2, {tensor({1000, 64}), tensor({4, 7}, "Long")})});
  EXPECT_EQ(row.bound_ns, 0);
  EXPECT_EQ(row.lost_ns(), kMs);
}

/// A report with one row that takes half of a step.
KernelReport report_of(KernelRow row, KernelSettings settings, const KernelMachine& used_machine = machine()) {
  row.forward.ns = 50;
  settings.network = "net";
  if (settings.batch == 0) settings.batch = 64;
  return {.settings = std::move(settings), .machine = used_machine, .rows = {std::move(row)}, .step_ns = 100};
}

KernelRow convolution(const std::string& kernel, KernelMaker maker, const std::string& type = "float32") {
  return {.layer = "conv 3x3",
          .kernel = kernel,
          .maker = maker,
          .type = type,
          .kind = LayerKind::kConvolution,
          .in = 64,
          .out = 128,
          .is_plain_3x3 = true};
}

KernelRow ours(const std::string& type = "float32") { return convolution("direct", KernelMaker::kLockstep, type); }

std::vector<std::string> hints(const KernelReport& report) {
  std::vector<std::string> all;
  for (const Check& each : kernel_advice(report)) all.insert(all.end(), each.hints.begin(), each.hints.end());
  return all;
}

TEST(KernelAdvice, HasNothingToSayWhereBfloat16IsFasterAndInUse) {
  EXPECT_THAT(kernel_advice(report_of(ours("bfloat16"), {.amp = "bf16"})), IsEmpty());
}

TEST(KernelAdvice, LeavesBfloat16WhereTheProcessorHasNoProductsOfIt) {
  KernelMachine old = machine();
  old.bfloat16_is_slow = true;
  EXPECT_THAT(hints(report_of(ours("bfloat16"), {.amp = "bf16"}, old)), ElementsAre("--set amp=none"));
  EXPECT_THAT(hints(report_of(ours(), {}, old)), IsEmpty());
  KernelMachine measured = machine();
  measured.bfloat16_flops_per_s = 50e9;
  EXPECT_THAT(hints(report_of(ours("bfloat16"), {.amp = "bf16"}, measured)), ElementsAre("--set amp=none"));
}

TEST(KernelAdvice, OffersBfloat16WhereItsProductsAreFasterAndMatter) {
  EXPECT_THAT(hints(report_of(ours(), {})), ElementsAre(HasSubstr("--set amp=bf16")));
  KernelMachine even = machine();
  even.bfloat16_flops_per_s = 110e9;
  EXPECT_THAT(hints(report_of(ours(), {}, even)), IsEmpty());
  KernelReport little = report_of(ours(), {});
  little.step_ns = 1000;
  EXPECT_THAT(hints(little), IsEmpty());
}

TEST(KernelAdvice, NamesBfloat16ConvolutionsOfLibtorchFrom213On) {
  KernelMachine now = machine();
  now.libtorch = "2.14.1";
  const KernelRow theirs = convolution("oneDNN", KernelMaker::kOneDnn, "bfloat16");
  EXPECT_THAT(hints(report_of(theirs, {.amp = "bf16"}, now)), ElementsAre("--set amp=none"));
  EXPECT_THAT(hints(report_of(theirs, {.amp = "bf16", .fused_layers = false}, now)),
              ::testing::Contains("--set fused_layers=true"));
  EXPECT_THAT(hints(report_of(theirs, {.amp = "bf16", .channels_last = false}, now)),
              ::testing::Contains("--set channels_last=true"));
  EXPECT_THAT(hints(report_of(ours("bfloat16"), {.amp = "bf16"}, now)), IsEmpty()) << "Lockstep's kernel serves";
  for (const char* version : {"1.13.1", "2.6.0", "2.12.3"}) {
    now.libtorch = version;
    EXPECT_THAT(hints(report_of(theirs, {.amp = "bf16"}, now)), IsEmpty()) << version;
  }
}

TEST(KernelAdvice, NamesPlainLayersAndThePlainLayout) {
  const KernelRow theirs = convolution("oneDNN", KernelMaker::kOneDnn, "bfloat16");
  const KernelReport plain = report_of(theirs, {.amp = "bf16", .channels_last = false, .fused_layers = false});
  EXPECT_THAT(hints(plain), ElementsAre(HasSubstr("fused_layers=true"), HasSubstr("channels_last=true")));
}

TEST(KernelAdvice, NamesChannelsThatFillNoVector) {
  KernelRow odd = ours("bfloat16");
  odd.in = 60;
  EXPECT_THAT(hints(report_of(odd, {.amp = "bf16"})), ElementsAre("use 64 and 128 channels there"));
  odd.kernel = "Winograd 2x2";
  EXPECT_THAT(hints(report_of(odd, {.amp = "bf16"})), IsEmpty());
  const KernelRow linear{.layer = "linear, 8x101 to 64",
                         .kernel = "oneDNN",
                         .maker = KernelMaker::kOneDnn,
                         .type = "bfloat16",
                         .kind = LayerKind::kProduct,
                         .in = 101,
                         .out = 64};
  EXPECT_THAT(hints(report_of(linear, {.amp = "bf16"})), ElementsAre("use 102 and 64 features there"));
  const KernelRow norm{.layer = "batch norm, 4x12x8x8", .kernel = "ATen", .kind = LayerKind::kNorm, .in = 12};
  EXPECT_THAT(hints(report_of(norm, {})), ElementsAre("use 16 channels there"));
}

TEST(KernelAdvice, NamesImagesThatLibtorchCopiesToMultiplyThem) {
  const KernelReport copied = report_of(convolution("im2col", KernelMaker::kAten), {});
  EXPECT_THAT(hints(copied), ::testing::Contains(HasSubstr("lockstep::nn::Conv2d")));
  EXPECT_THAT(hints(report_of(ours(), {})), ::testing::Not(::testing::Contains(HasSubstr("Conv2d"))));
}

TEST(KernelAdvice, NamesABatchThatIsSmallerThanTheThreads) {
  KernelMachine many = machine();
  many.threads = 8;
  EXPECT_THAT(hints(report_of(ours("bfloat16"), {.batch = 4, .amp = "bf16"}, many)),
              ElementsAre("--set batch_size=8 or more, or --set threads=4"));
  EXPECT_THAT(hints(report_of(ours("bfloat16"), {.batch = 8, .amp = "bf16"}, many)), IsEmpty());
}

TEST(KernelAdvice, NamesKernelsOfOpenBlasForAnotherProcessor) {
  KernelMachine wrong = machine();
  wrong.blas_kernels = "Prescott";
  wrong.better_blas_kernels = "Cooperlake";
  EXPECT_THAT(hints(report_of(ours("bfloat16"), {.amp = "bf16"}, wrong)), ElementsAre("unset OPENBLAS_CORETYPE"));
}

KernelReport whole_report() {
  KernelReport report = report_of(convolution("Winograd 4x4", KernelMaker::kLockstep), {});
  report.rows[0].layer = "conv 3x3 /2 dilation 2, 64x1024x130x180 to 1024";
  report.rows[0].instructions = "AVX-512 bf16";
  report.rows[0].modules = {"features.0.conv", "features.3.conv"};
  report.rows[0].bound_ns = 25;
  report.advice = kernel_advice(report);
  return report;
}

TEST(KernelReport, FitsTheTerminal) {
  for (const int width : {80, 100, 120}) {
    const std::string shown = kernels_text(whole_report(), width, false);
    std::istringstream lines(shown);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
    const std::size_t table = shown.find("layer ");
    const std::string title = shown.substr(table, shown.find('\n', table) - table);
    EXPECT_LE(display_width(title), width);
    EXPECT_THAT(title, HasSubstr("kernel"));
    EXPECT_THAT(title, HasSubstr("lost"));
  }
  EXPECT_THAT(kernels_text(whole_report(), 0, false), HasSubstr("features.0.conv +1"));
  EXPECT_THAT(kernels_text(whole_report(), 80, false), Not(HasSubstr("features.0.conv")));
}

TEST(KernelReport, HasTheSameAsJson) {
  const auto json = nlohmann::json::parse(kernels_json(whole_report()));
  EXPECT_EQ(json["network"], "net");
  const auto& layer = json["layers"].at(0);
  EXPECT_EQ(layer["kernel"], "Winograd 4x4");
  EXPECT_EQ(layer["maker"], "lockstep");
  EXPECT_EQ(layer["share_of_peak"], 0.5);
  EXPECT_EQ(json["advice"].at(0)["about"], "amp");
}

}  // namespace kernel_report_test
}  // namespace lockstep::view
