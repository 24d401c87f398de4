// SPDX-License-Identifier: Apache-2.0
// Checkpoint values: the differences between two, and the refusal to save non-finite values.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/faulty_file_system.h"
#include "checkpoint/formats/finite_bits.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/diff.h"
#include "lockstep/checkpoint/inspect.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace diff_test {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Two checkpoints that differ in known ways, and the report about them.

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Checkpoints in separate folders, without fsync: the real disk is not under test.
class Diff : public ::testing::Test {
 protected:
  Checkpoint save(const CheckpointStates& states, const CheckpointMeta& meta = {}, const CheckpointTexts& texts = {}) {
    const auto folder = run_ / std::to_string(saved_++);
    ShardedContent content{.parts = {}, .texts = texts, .finite = {.required = false}};
    for (const auto& [name, state] : states) content.parts[name].entries = state;
    return load_checkpoint(commit_sharded_checkpoint(files_, *no_peers(), folder, meta, content).string());
  }
  CheckpointDiff diff(const CheckpointStates& a, const CheckpointStates& b) {
    return diff_checkpoints(save(a), save(b));
  }
  CheckpointDiff diff_entries(const StateDict& a, const StateDict& b) { return diff({{"model", a}}, {{"model", b}}); }
  /// Compares two tensors and returns their difference.
  TensorDifference diff_tensors(const at::Tensor& a, const at::Tensor& b) {
    const CheckpointDiff found = diff_entries({{"w", a}}, {{"w", b}});
    EXPECT_EQ(found.tensors.size(), 1U);
    return found.tensors.empty() ? TensorDifference() : found.tensors.front();
  }

  test::TempDir run_;
  test::FaultyFileSystem files_{-1, test::FaultyFileSystem::Fault::kOnce};
  int saved_ = 0;
};

at::Tensor floats(const std::vector<double>& values, at::ScalarType type = at::kFloat) {
  return at::tensor(values, at::kDouble).to(type);
}

TEST_F(Diff, OfEqualStatesIsEmptyAndNamesTheDigest) {
  const Checkpoint a = save(test::states_of(3));
  const CheckpointDiff same = diff_checkpoints(a, save(test::states_of(3)));
  EXPECT_TRUE(same.equal());
  EXPECT_EQ(same.entries, 6);
  EXPECT_EQ(same.digest_a, checkpoint_digest(a));
  EXPECT_EQ(same.digest_b, same.digest_a);
  EXPECT_THAT(to_text(same), StartsWith("equal: digest " + checkpoint_digest(a) + "\n"));
}

TEST_F(Diff, NamesEntriesThatOnlyOneSideHas) {
  auto more = test::states_of(3);
  more["ema"] = {{"w", at::ones({2})}, {"decay", 0.5}};
  more["model"]["head.bias"] = at::ones({1});
  const CheckpointDiff found = diff(more, test::states_of(3));
  EXPECT_THAT(found.only_in_a, ElementsAre("ema/decay", "ema/w", "model/head.bias"));
  EXPECT_THAT(found.only_in_b, IsEmpty());
  EXPECT_EQ(found.differing(), 3);
  EXPECT_EQ(found.entries, 9);
  const CheckpointDiff back = diff(test::states_of(3), more);
  EXPECT_THAT(back.only_in_b, ElementsAre("ema/decay", "ema/w", "model/head.bias"));
  EXPECT_EQ(back.entries, 9);
}

TEST_F(Diff, NamesEntriesOfAnotherTypeOrShape) {
  const CheckpointDiff found = diff_entries(
      {{"dtype", at::ones({2})}, {"kind", at::ones({1})}, {"shape", at::ones({2, 3})}, {"same", at::ones({1})}},
      {{"dtype", at::ones({2}, at::kDouble)}, {"kind", 1.0}, {"shape", at::ones({3, 2})}, {"same", at::ones({1})}});
  ASSERT_EQ(found.types.size(), 3U);
  EXPECT_EQ(found.types[0].name, "model/dtype");
  EXPECT_EQ(found.types[0].a, "float32 [2]");
  EXPECT_EQ(found.types[0].b, "float64 [2]");
  EXPECT_EQ(found.types[1].a, "float32 [1]");
  EXPECT_EQ(found.types[1].b, "1.0");
  EXPECT_EQ(found.types[2].a, "float32 [2, 3]");
  EXPECT_EQ(found.types[2].b, "float32 [3, 2]");
  EXPECT_EQ(found.differing(), 3);
}

TEST_F(Diff, GivesBothValuesOfAPlainValue) {
  const double nan = std::nan("");
  const CheckpointDiff found =
      diff_entries({{"flag", true}, {"nan", nan}, {"step", std::int64_t{4}}, {"type", std::int64_t{1}}, {"zero", 0.0}},
                   {{"flag", true}, {"nan", nan}, {"step", std::int64_t{5}}, {"type", 1.0}, {"zero", -0.0}});
  std::vector<std::string> lines;
  for (const ValueDifference& value : found.values) {
    lines.push_back(fmt::format("{} {} {}", value.name, value.a, value.b));
  }
  EXPECT_THAT(lines, ElementsAre("model/step 4 5", "model/type 1 1.0", "model/zero 0.0 -0.0"));
}

TEST_F(Diff, MeasuresHowFarATensorIsAway) {
  const TensorDifference found = diff_tensors(floats({1, 2, -8, 0}), floats({1, 2.5, -8, 0.25}));
  EXPECT_EQ(found.name, "model/w");
  EXPECT_EQ(found.type, "float32 [4]");
  EXPECT_EQ(found.elements, 4);
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.non_finite, 0);
  EXPECT_THAT(found.largest_absolute, DoubleEq(0.5));
  EXPECT_THAT(found.largest_relative, DoubleEq(0.5 / 8));
}

TEST_F(Diff, CountsStepsOfTheFloatingType) {
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    SCOPED_TRACE(c10::toString(type));
    const double step = type == at::kHalf       ? 0x1p-10
                        : type == at::kBFloat16 ? 0x1p-7
                        : type == at::kFloat    ? 0x1p-23
                                                : 0x1p-52;
    EXPECT_EQ(diff_tensors(floats({1, 7}, type), floats({1 + 3 * step, 7}, type)).largest_ulps, 3U);
    EXPECT_EQ(diff_tensors(floats({-1}, type), floats({-1 - step}, type)).largest_ulps, 1U);
    // 2 is a power of two: the spacing below it is half as wide.
    EXPECT_EQ(diff_tensors(floats({2}, type), floats({2 - step}, type)).largest_ulps, 1U);
    EXPECT_THAT(diff_tensors(floats({1}, type), floats({1 + step}, type)).largest_absolute, DoubleEq(step));
  }
  const double tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(diff_tensors(floats({tiny}), floats({-tiny})).largest_ulps, 2U);
}

TEST_F(Diff, ComparesBitsSoThatZerosOfTwoSignsDifferAndEqualNansDoNot) {
  const TensorDifference zeros = diff_tensors(floats({0.0, 1}), floats({-0.0, 1}));
  EXPECT_EQ(zeros.differing, 1);
  EXPECT_EQ(zeros.largest_absolute, 0);
  EXPECT_EQ(zeros.largest_ulps, 0U);
  EXPECT_TRUE(diff_entries({{"w", floats({NAN, 1})}}, {{"w", floats({NAN, 1})}}).equal());
  EXPECT_EQ(diff_tensors(floats({NAN, 1}), floats({NAN, 2})).differing, 1);
  at::Tensor other_nan = at::full({1}, 0x7fc00001, at::kInt).view(at::kFloat);
  EXPECT_EQ(diff_tensors(floats({NAN}), other_nan).differing, 1);
}

TEST_F(Diff, CountsWhatIsNotFiniteApart) {
  const TensorDifference found =
      diff_tensors(floats({1, 2, -kInfinity, NAN, kInfinity}), floats({1.5, NAN, kInfinity, NAN, kInfinity}));
  EXPECT_EQ(found.differing, 3);
  EXPECT_EQ(found.non_finite, 2);
  EXPECT_THAT(found.largest_absolute, DoubleEq(0.5));
  EXPECT_THAT(found.largest_relative, DoubleEq(0.25));
  const double large = std::numeric_limits<double>::max();
  const TensorDifference overflow = diff_tensors(floats({large}, at::kDouble), floats({-large}, at::kDouble));
  EXPECT_EQ(overflow.largest_absolute, large);
  EXPECT_EQ(overflow.non_finite, 0);
}

TEST_F(Diff, MeasuresIntegersAndBooleansWithoutUlps) {
  const auto lowest = std::numeric_limits<std::int64_t>::min();
  const auto highest = std::numeric_limits<std::int64_t>::max();
  const TensorDifference wide = diff_tensors(at::full({1}, lowest, at::kLong), at::full({1}, highest, at::kLong));
  EXPECT_THAT(wide.largest_absolute, DoubleEq(18446744073709551615.0));
  EXPECT_EQ(wide.largest_ulps, std::nullopt);
  for (const auto type : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    const TensorDifference found = diff_tensors(at::full({3}, 100, type), at::full({3}, 75, type));
    EXPECT_EQ(found.largest_absolute, 25) << c10::toString(type);
    EXPECT_EQ(found.largest_relative, 0.25) << c10::toString(type);
    EXPECT_EQ(found.differing, 3) << c10::toString(type);
  }
  EXPECT_EQ(diff_tensors(at::zeros({2}, at::kBool), at::ones({2}, at::kBool)).largest_absolute, 1);
  EXPECT_TRUE(diff_entries({{"w", at::empty({0, 3})}}, {{"w", at::empty({0, 3})}}).equal());
}

TEST_F(Diff, PutsTheWorstTensorFirst) {
  const StateDict a{{"big", floats({1000})},
                    {"nan", floats({1})},
                    {"same", floats({1})},
                    {"small", floats({0.001})},
                    {"small too", floats({0.001})}};
  const StateDict b{{"big", floats({1001})},
                    {"nan", floats({NAN})},
                    {"same", floats({1})},
                    {"small", floats({0.002})},
                    {"small too", floats({0.002})}};
  std::vector<std::string> names;
  for (const TensorDifference& tensor : diff_entries(a, b).tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("model/nan", "model/small", "model/small too", "model/big"));
}

TEST_F(Diff, ShowsWhatStandsBesideTheStateButCountsTheStatesAlone) {
  const Checkpoint a = save(test::states_of(3), {.step = 1, .replicas = 2, .threads = 3, .configuration_hash = "c0"},
                            {{"c.yml", "x\nz"}});
  const Checkpoint b = save(test::states_of(3), {.step = 2, .replicas = 4, .threads = 6, .configuration_hash = "c1"},
                            {{"c.yml", "y\nz"}, {"d.yml", ""}});
  const CheckpointDiff found = diff_checkpoints(a, b);
  EXPECT_TRUE(found.equal());
  std::vector<std::string> names;
  for (const ValueDifference& field : found.meta) names.push_back(field.name);
  EXPECT_THAT(names, ElementsAre("step", "replicas", "threads", "configuration", "c.yml", "d.yml"));
  EXPECT_THAT(
      to_text(found),
      AllOf(StartsWith("equal: digest "), HasSubstr("outside the state: 6\n"), HasSubstr("  configuration  c0    c1\n"),
            HasSubstr("  c.yml          x\\nz  y\\nz\n"), HasSubstr("  d.yml          none  0 bytes\n")));
  EXPECT_THAT(diff_checkpoints(a, a).meta, IsEmpty());
}

TEST_F(Diff, IsEqualExactlyWhereTheDigestsAre) {
  const CheckpointStates base = test::states_of(3);
  std::vector<CheckpointStates> variants(6, base);
  variants[1]["model"]["conv.weight"] = test::states_of(4).at("model").at("conv.weight");
  variants[2]["trainer"]["best"] = 0.5;
  variants[3]["trainer"].erase("best");
  variants[4]["ema"] = {{"w", at::ones({1})}};
  variants[5]["ema"] = {};  // a state without entries does not count
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const CheckpointDiff found = diff(base, variants[i]);
    EXPECT_EQ(found.equal(), found.digest_a == found.digest_b) << i;
    EXPECT_EQ(found.equal(), i == 0 || i == 5) << i;
  }
}

TEST_F(Diff, TellsAPersonOfManyWithoutDrowningThem) {
  StateDict a;
  StateDict b;
  for (int i = 0; i < 30; ++i) {
    a[fmt::format("w{:02}", i)] = floats({1});
    b[fmt::format("w{:02}", i)] = floats({2.0 + i});
  }
  const CheckpointDiff found = diff_entries(a, b);
  EXPECT_THAT(to_text(found), AllOf(StartsWith("differ: 30 of 30 entries\n"), HasSubstr("tensors, worst first: 30\n"),
                                    HasSubstr("  model/w29  float32 [1]  1 of 1 "), HasSubstr("  model/w10  "),
                                    Not(HasSubstr("model/w09")), EndsWith("  ... and 10 more\n")));
  EXPECT_THAT(to_text(found, 0), AllOf(HasSubstr("model/w00"), Not(HasSubstr("more\n"))));
}

TEST_F(Diff, CutsLongValuesToWhereTheyDiffer) {
  const std::string text_a = std::string(500, 'x') + "seed: 1\n" + std::string(500, 'y');
  std::string text_b = text_a;
  text_b[506] = '2';
  const std::string text = to_text(diff_entries({{"config", text_a}}, {{"config", text_b}}));
  EXPECT_THAT(text, AllOf(HasSubstr("...xxxxxxxxxxseed: 1\\ny"), HasSubstr("...xxxxxxxxxxseed: 2\\ny")));
  EXPECT_LT(text.size(), 500U);
  // A string is never cut in the middle of a character.
  std::string han;
  for (int i = 0; i < 100; ++i) han += "验";
  for (int shift = 0; shift < 3; ++shift) {
    const std::string front = std::string(static_cast<std::size_t>(shift), 'a') + han;
    const std::string cut = to_text(diff_entries({{"t", front + "1" + han}}, {{"t", front + "2" + han}}));
    EXPECT_NO_THROW((void)nlohmann::json(cut).dump()) << shift;
  }
}

TEST_F(Diff, IsOneJsonObjectForAProgram) {
  StateDict a{{"n", floats({1, NAN})}, {"only \"a\"", true}, {"s", std::string("q\"\n")}, {"v", kInfinity}};
  StateDict b{{"n", floats({2, 1})}, {"s", std::string("r")}, {"v", std::int64_t{3}}};
  const std::string text =
      to_json(diff_checkpoints(save({{"m", a}}, {.step = 1}), save({{"m", b}}, {.step = 2}, {{"t", ""}})));
  EXPECT_THAT(text, EndsWith("}\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("equal"), false);
  EXPECT_EQ(json.at("entries"), 4);
  EXPECT_EQ(json.at("digest_a").get<std::string>().size(), 64U);
  EXPECT_EQ(json.at("meta").at(0), nlohmann::json::parse(R"({"name": "step", "a": "1", "b": "2"})"));
  EXPECT_EQ(json.at("only_in_a"), nlohmann::json::parse(R"(["m/only \"a\""])"));
  EXPECT_EQ(json.at("only_in_b").size(), 0U);
  EXPECT_EQ(json.at("values").at(0), nlohmann::json::parse(R"({"name": "m/s", "a": "q\"\n", "b": "r"})"));
  EXPECT_EQ(json.at("values").at(1), nlohmann::json::parse(R"({"name": "m/v", "a": {"float": "inf"}, "b": 3})"));
  EXPECT_EQ(json.at("tensors").at(0),
            nlohmann::json::parse(R"({"name": "m/n", "type": "float32 [2]", "elements": 2, "differing": 2,
              "non_finite": 1, "largest_absolute": 1, "largest_relative": 0.5, "largest_ulps": 8388608})"));
}

// A checkpoint with non-finite values is not saved; existing ones are neither pruned nor treated as good.

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

FileSystem& disk() { return FileSystem::system(); }

/// A model with an attention mask, and Adam's moments for its trainable parameters.
CheckpointStates good_states(std::int64_t seed = 1) {
  CheckpointStates states;
  states["model"] = {{"fc.weight", at::ones({8, 8}) * static_cast<double>(seed)},
                     {"scale", at::ones({3})},
                     {"bn.running_var", at::ones({8})},
                     {"mask", at::tensor({0.F, -kInf, -kInf})}};
  states["optimizer"] = {
      {"fc.weight.exp_avg", at::zeros({8, 8})}, {"scale.exp_avg", at::zeros({3})}, {"step", std::int64_t{1}}};
  states["ema"] = {{"fc.weight", at::ones({8, 8})}, {"mask", at::tensor({0.F, -kInf, -kInf})}};
  states["run"] = {{"best", std::numeric_limits<double>::infinity()}, {"curve", at::tensor({kNan, kNan, kNan})}};
  return states;
}

CheckpointStates spoilt(const std::string& state, const std::string& entry, float value, std::int64_t at = 2) {
  CheckpointStates states = good_states();
  at::Tensor tensor = std::get<at::Tensor>(states.at(state).at(entry)).clone();
  tensor.view({-1})[at].fill_(value);
  states.at(state).at(entry) = tensor;
  return states;
}

std::map<std::string, StatePart> parts_of(const CheckpointStates& states) {
  std::map<std::string, StatePart> parts;
  for (const auto& [name, entries] : states) parts[name].entries = entries;
  return parts;
}

/// Commits without the check, like older versions.
void commit_anything(const fs::path& folder, std::int64_t step, const CheckpointStates& states) {
  ShardedContent content{.parts = parts_of(states), .texts = {}, .finite = {.required = false}};
  commit_sharded_checkpoint(disk(), *no_peers(), folder, {.step = step}, content);
}

template <class Save>
std::string refusal(Save&& save) {
  try {
    save();
    return "nothing was refused";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(NotFinite, IsFoundInEveryFloatingType) {
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t place : {0, 1, 4095, 4096, 10000}) {
      for (const float value : {kNan, -kNan, kInf, -kInf, std::numeric_limits<float>::max()}) {
        at::Tensor many = at::zeros({10001}, type);
        if (std::isfinite(value)) {
          many[place].fill_(type == at::kHalf ? 65504.F : 3e38F);  // large, but finite
        } else {
          many[place].fill_(value);
        }
        const auto dtype = type == at::kDouble  ? checkpoint::DType::kF64
                           : type == at::kFloat ? checkpoint::DType::kF32
                           : type == at::kHalf  ? checkpoint::DType::kF16
                                                : checkpoint::DType::kBF16;
        const auto found = checkpoint::count_not_finite(dtype, many.data_ptr(), many.nbytes());
        EXPECT_EQ(found.nan, std::isnan(value) ? 1 : 0) << type << " at " << place;
        EXPECT_EQ(found.infinite, std::isinf(value) ? 1 : 0) << type << " at " << place;
      }
    }
  }
}

TEST(NotFinite, IsRefusedByNameWithTheLastGoodCheckpoint) {
  const TempDir run;
  const fs::path folder = run / "checkpoints";
  commit_checkpoint(disk(), folder, {.step = 4}, good_states());
  EXPECT_THAT(
      refusal([&] { commit_checkpoint(disk(), folder, {.step = 6}, spoilt("model", "fc.weight", kNan)); }),
      AllOf(HasSubstr("the checkpoint of step 6 is not saved: model/fc.weight is not finite (1 of 64 elements)"),
            HasSubstr("the last good one is " + (folder / "step-00000004").string())));
  EXPECT_THAT(disk().list(folder), ElementsAre("step-00000004"));
  const TempDir other;
  EXPECT_THAT(refusal([&] { commit_checkpoint(disk(), other.path(), {.step = 6}, spoilt("ema", "fc.weight", kNan)); }),
              HasSubstr("there is no good one before it"));
}

TEST(NotFinite, IsWrongInWhatIsLearntMeasuredOrMomentsAndAnInfinityMayBeInAMask) {
  const TempDir run;
  const auto is_refused = [&](const std::string& state, const std::string& entry, float value) {
    return refusal([&] { commit_checkpoint(disk(), run.path(), {.step = 6}, spoilt(state, entry, value)); }) !=
           "nothing was refused";
  };
  for (const float value : {kNan, kInf, -kInf}) {
    for (const char* entry : {"fc.weight", "scale", "bn.running_var"}) EXPECT_TRUE(is_refused("model", entry, value));
    EXPECT_TRUE(is_refused("optimizer", "scale.exp_avg", value));
    EXPECT_TRUE(is_refused("ema", "fc.weight", value));
  }
  EXPECT_TRUE(is_refused("model", "mask", kNan));
  EXPECT_FALSE(is_refused("model", "mask", kInf));
  EXPECT_FALSE(is_refused("ema", "mask", -kInf));
  EXPECT_FALSE(is_refused("run", "curve", kInf));
}

TEST(NotFinite, WithoutMomentsIsWrongInWeightsByTheirNamesAndInWhatIsSaidToBeLearnt) {
  const TempDir run;
  CheckpointStates states = spoilt("model", "fc.weight", kInf);
  states["optimizer"] = {{"step", std::int64_t{1}}};  // SGD without momentum
  EXPECT_THAT(refusal([&] { commit_checkpoint(disk(), run.path(), {.step = 6}, states); }), HasSubstr("fc.weight"));
  states = spoilt("model", "scale", kInf);
  states["optimizer"] = {{"step", std::int64_t{1}}};
  ShardedContent content{.parts = parts_of(states), .texts = {}, .finite = {.learnt = {"scale"}}};
  EXPECT_THAT(refusal([&] { commit_sharded_checkpoint(disk(), *no_peers(), run.path(), {.step = 6}, content); }),
              HasSubstr("model/scale"));
}

TEST(NotFinite, IsSavedWhereItIsMeant) {
  const TempDir run;
  commit_anything(run.path(), 6, spoilt("model", "fc.weight", kNan));
  EXPECT_THAT(not_finite_in(disk(), run / "step-00000006"), HasSubstr("model/fc.weight is not finite (1 of 64"));
}

TEST(NotFinite, InASharedSaveIsEveryRanksErrorWhicheverRankHasIt) {
  const TempDir run;
  for (const int bad : {0, 1}) {
    const auto store = make_local_store();
    std::vector<std::string> errors(2);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        CheckpointWriter writer(disk(), {.folder = rank == 0 ? run.path() : fs::path()},
                                store_peers(*store, {.rank = rank, .world_size = 2}));
        StateParts parts;  // rank 1 has the second half of the weight
        for (const auto& [name, entries] : spoilt("model", "fc.weight", kNan, bad == 0 ? 2 : 60)) {
          parts[name] = part_of(entries, rank, 2);
        }
        errors[static_cast<std::size_t>(rank)] = refusal([&] { writer.save(parts, {.meta = {.step = 3}}); });
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_THAT(errors[0], HasSubstr("the checkpoint of step 3 is not saved: "));
    EXPECT_THAT(errors[0], HasSubstr("model/fc.weight is not finite"));
    EXPECT_THAT(disk().list(run.path()), IsEmpty());
  }
}

TEST(NotFinite, InTheBackgroundIsThrownByTheNextCheckAndNothingIsPruned) {
  const TempDir run;
  CheckpointWriter writer(disk(), {.folder = run.path(), .retention = {.keep_last = 1}, .background = true});
  writer.save_in_background(parts_of(good_states()), {.meta = {.step = 1}});
  writer.save_in_background(parts_of(spoilt("optimizer", "fc.weight.exp_avg", kInf)),
                            {.meta = {.step = 2}, .names = {"best"}});
  EXPECT_THAT(refusal([&] { writer.wait(); }), HasSubstr("optimizer/fc.weight.exp_avg is not finite"));
  EXPECT_THAT(disk().list(run.path()), ElementsAre("step-00000001"));
  EXPECT_EQ(writer.newest(), run / "step-00000001");
}

TEST(NotFinite, IsNeverTheReasonToPruneTheLastGoodOne) {
  const TempDir run;
  for (const std::int64_t step : {1, 2}) commit_checkpoint(disk(), run.path(), {.step = step}, good_states());
  for (const std::int64_t step : {3, 4, 5}) commit_anything(run.path(), step, spoilt("model", "fc.weight", kNan));
  prune_checkpoints(disk(), run.path(), {.keep_last = 1});
  EXPECT_THAT(disk().list(run.path()), ElementsAre("step-00000002", "step-00000005"));
  CheckpointWriter writer(disk(), {.folder = run.path(), .retention = {.keep_last = 1}});
  writer.save(parts_of(good_states()), {.meta = {.step = 3}});  // a run that continued from step 2
  EXPECT_THAT(disk().list(run.path()), ElementsAre("step-00000003", "step-00000005"));
}

TEST(NotFinite, InALoadedStateIsSaidWithTheGoodOneBefore) {
  const TempDir run;
  commit_checkpoint(disk(), run.path(), {.step = 1}, good_states());
  commit_anything(run.path(), 3, spoilt("model", "fc.weight", kNan));
  EXPECT_EQ(find_newest_finite(disk(), run.path()), run / "step-00000001");
  EXPECT_EQ(find_newest_finite(disk(), run.path(), 1), std::nullopt);
  const Checkpoint checkpoint = load_checkpoint(run.path().string());
  ::testing::internal::CaptureStderr();
  (void)checkpoint.state("model");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("step-00000003 holds values that are not finite: model/fc.weight"),
                          HasSubstr("the newest good one before it is " + (run / "step-00000001").string())));
  ::testing::internal::CaptureStderr();
  (void)load_checkpoint((run / "step-00000001").string()).state("model");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace diff_test
}  // namespace lockstep
