// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/safetensors.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace weights_test {

using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TorchValue state(double value, const std::string& prefix = "") {
  return {TorchDict{{prefix + "weight", {at::full({2, 3}, value)}}, {prefix + "bias", {at::full({2}, value)}}}};
}

double value_of(const Weights& weights) { return std::get<at::Tensor>(weights.tensors.at("bias"))[0].item<double>(); }

std::string golden(const std::string& name) { return LOCKSTEP_TEST_SOURCE_DIR "/tests/checkpoint/golden/" + name; }

TEST(Weights, AFlatStateDictIsTheStateWithoutModuleInFront) {
  const Weights weights = pick_weights(state(1, "module."), "x.pth");
  EXPECT_EQ(weights.tensors.size(), 2U);
  EXPECT_EQ(value_of(weights), 1);
  EXPECT_EQ(weights.origin, "x.pth");
}

TEST(Weights, ModuleStaysWhereOnlySomeNamesBeginWithIt) {
  const TorchValue mixed{TorchDict{{"module.a", {at::ones({1})}}, {"b", {at::ones({1})}}}};
  EXPECT_EQ(pick_weights(mixed, "x.pth").tensors.count("module.a"), 1U);
}

TEST(Weights, TheAverageComesBeforeTheModelWhereItIsWhole) {
  TorchValue both{
      TorchDict{{"model", state(1)}, {"ema", {TorchDict{{"module", state(2, "module.")}, {"updates", {4L}}}}}}};
  EXPECT_EQ(value_of(pick_weights(both, "x.pth")), 2);
  EXPECT_EQ(pick_weights(both, "x.pth").origin, "x.pth, ema.module");
  EXPECT_EQ(value_of(pick_weights(both, "x.pth", {"model"})), 1);
  EXPECT_EQ(value_of(pick_weights(both, "x.pth", {"ema.module"})), 2);
  EXPECT_EQ(value_of(pick_weights(both, "x.pth", {"ema"})), 2);
  TorchValue part{TorchDict{{"model", state(1)}, {"ema", {TorchDict{{"bias", {at::ones({2})}}}}}}};
  EXPECT_EQ(value_of(pick_weights(part, "x.pth")), 1);
  EXPECT_EQ(pick_weights(part, "x.pth").origin, "x.pth, model");
}

TEST(Weights, TheUsualNamesAreFoundBelowEachOther) {
  const TorchValue deep{TorchDict{{"checkpoint", {TorchDict{{"state_dict", state(3)}}}}, {"epoch", {1L}}}};
  EXPECT_EQ(value_of(pick_weights(deep, "x.pth", {"checkpoint"})), 3);
  EXPECT_EQ(value_of(pick_weights({TorchDict{{"model", {TorchDict{{"state_dict", state(3)}}}}}}, "x.pth")), 3);
  const std::string fault = fault_of<DataError>([&] { (void)pick_weights(deep, "x.pth"); });
  EXPECT_THAT(fault, HasSubstr("x.pth: it holds no tensors by name"));
  EXPECT_THAT(fault, HasSubstr("name one as x.pth:STATE; it has checkpoint"));
  EXPECT_THAT(fault_of<DataError>([&] { (void)pick_weights(deep, "x.pth", {"emma"}); }), HasSubstr("no state 'emma'"));
}

TEST(Weights, FilesOfPyTorchAreRead) {
  const Weights flat = load_weights(golden("state_dict.pth"));
  EXPECT_EQ(std::get<at::Tensor>(flat.tensors.at("conv.weight")).numel(), 24);
  const Weights average = load_weights(golden("nested.pth"));
  EXPECT_EQ(std::get<at::Tensor>(average.tensors.at("bn.num_batches_tracked")).item<std::int64_t>(), 107);
  const Weights model = load_weights(golden("nested.pth") + ":model");
  EXPECT_EQ(std::get<at::Tensor>(model.tensors.at("bn.num_batches_tracked")).item<std::int64_t>(), 7);
}

TEST(Weights, CheckpointFoldersAndSafetensorsAreRead) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  const StateDict model{{"bias", at::full({2}, 1.0)}, {"weight", at::ones({2, 3})}};
  const StateDict average{{"bias", at::full({2}, 2.0)}, {"weight", at::ones({2, 3})}, {"updates", std::int64_t{3}}};
  commit_checkpoint(files, folder / "run/checkpoints", {.step = 4}, {{"model", model}, {"ema", average}});
  EXPECT_EQ(value_of(load_weights(folder / "run")), 2);
  EXPECT_EQ(value_of(load_weights(folder / "run", {"model"})), 1);
  EXPECT_THAT(fault_of<DataError>([&] { (void)load_weights(folder / "run", {"emma"}); }),
              HasSubstr("did you mean 'ema'"));
  write_safetensors(files, folder / "x.safetensors", model);
  EXPECT_EQ(value_of(load_weights(folder / "x.safetensors")), 1);
}

TEST(Weights, AShardedModelIsReadThroughItsIndex) {
  const test::TempDir folder;
  FileSystem& files = FileSystem::system();
  write_safetensors(files, folder / "m-1.safetensors", {{"bias", at::full({2}, 5.0)}});
  write_safetensors(files, folder / "m-2.safetensors", {{"weight", at::ones({2, 3})}});
  const std::filesystem::path index = folder / "m.safetensors.index.json";
  const auto load = [&](const std::string& json) {
    std::ofstream(index) << json;
    return load_weights(index);
  };
  const Weights weights = load(R"({"weight_map": {"bias": "m-1.safetensors", "weight": "m-2.safetensors"}})");
  EXPECT_EQ(weights.tensors.size(), 2U);
  EXPECT_EQ(value_of(weights), 5);
  const auto fault = [&](const std::string& json) { return fault_of<DataError>([&] { (void)load(json); }); };
  EXPECT_THAT(fault(R"({"weight_map": {"bias": "m-2.safetensors"}})"), HasSubstr("'bias' is said to be in m-2"));
  EXPECT_THAT(fault(R"({"weight_map": {"bias": "../m-1.safetensors"}})"), HasSubstr("no name of a file beside it"));
  EXPECT_THAT(fault(R"({"weight_map": {"bias": "m-3.safetensors"}})"), HasSubstr("m-3.safetensors does not exist"));
  EXPECT_THAT(fault("{}"), HasSubstr("no weight_map"));
  EXPECT_THAT(fault("["), HasSubstr("no JSON"));
}

TEST(MatchWeights, ListsWhatFitsAndWhatDoesNot) {
  const NamedTensors model = {
      {"a", at::zeros({2})}, {"b", at::zeros({3, 4})}, {"c", at::zeros({1})}, {"d", at::zeros({1})}};
  const Weights weights{
      {{"a", at::ones({2}, at::kHalf)}, {"b", at::ones({3, 5})}, {"d", at::ones({1})}, {"x", at::ones({1})}}, "f"};
  const WeightsMatch match = copy_weights(model, weights);
  EXPECT_THAT(match.loaded, ElementsAre("a", "d"));
  EXPECT_THAT(match.converted, ElementsAre("a"));
  EXPECT_THAT(match.missing, ElementsAre("c"));
  EXPECT_THAT(match.unused, ElementsAre("x"));
  EXPECT_EQ(to_text(match),
            "2 of 4 entries of the model are loaded, 1 of them converted from another dtype\n"
            "another shape, left as it was: 1\n  b  [3, 4] in the model, [3, 5] in the file\n"
            "not in the file, left as it was: 1\n  c\n"
            "in the file only, not used: 1\n  x\n");
  EXPECT_TRUE(at::equal(model[0].second, at::ones({2})));
  EXPECT_TRUE(at::equal(model[1].second, at::zeros({3, 4})));
  EXPECT_TRUE(at::equal(model[3].second, at::ones({1})));
}

TEST(MatchWeights, TiedWeightsStandUnderAnyOfTheirNames) {
  const at::Tensor shared = at::zeros({2});
  const NamedTensors model = {{"embed", shared}, {"body", at::zeros({1})}, {"head", shared}};
  const at::Tensor body = at::ones({1});
  const auto load = [&](const StateDict& state) {
    shared.zero_();
    return copy_weights(model, {state, "f"});
  };
  for (const StateDict& state : {StateDict{{"embed", at::ones({2})}, {"head", at::ones({2})}, {"body", body}},
                                 StateDict{{"head", at::ones({2})}, {"body", body}}}) {
    const WeightsMatch match = load(state);
    EXPECT_EQ(to_text(match), "2 of 2 entries of the model are loaded\n");
    EXPECT_THAT(match.loaded, ElementsAre("body", "embed"));
    EXPECT_TRUE(shared.equal(at::ones({2})));
  }
  EXPECT_THAT(load({{"body", body}}).missing, ElementsAre("embed"));
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)load({{"embed", at::ones({2})}, {"head", at::full({2}, 2.0)}});
              }),
              HasSubstr("f: 'embed' and 'head' are one tensor of the model and differ there"));
}

TEST(MatchWeights, ItsListsAreCutAndCounted) {
  NamedTensors model = {{"fits", at::zeros({1})}};
  for (int i = 0; i < 25; ++i) model.emplace_back("m" + std::to_string(i), at::zeros({1}));
  const std::string text = to_text(match_weights(model, {{"fits", at::ones({1})}}));
  EXPECT_THAT(text, HasSubstr("not in the file, left as it was: 25\n"));
  EXPECT_THAT(text, HasSubstr("  ... and 5 more\n"));
}

TEST(MatchWeights, NothingThatFitsIsAnErrorWithTheNearestNames) {
  const NamedTensors model = {{"features.0.weight", at::zeros({1})}};
  const auto fault = [&](const StateDict& state) {
    return fault_of<DataError>([&] { copy_weights(model, {state, "f.pth"}); });
  };
  EXPECT_THAT(
      fault({{"feature.0.weight", at::ones({1})}}),
      HasSubstr(
          "f.pth: none of its 1 tensors fits the model: 'features.0.weight' (nearest there: 'feature.0.weight')"));
  EXPECT_THAT(fault({{"features.0.weight", at::ones({2})}}), HasSubstr("is [1] in the model and [2] there"));
  EXPECT_THAT(fault({{"z", at::ones({2})}}), HasSubstr("the model begins with 'features.0.weight', the file with 'z'"));
}

}  // namespace weights_test
}  // namespace lockstep
