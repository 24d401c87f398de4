// SPDX-License-Identifier: Apache-2.0
// Foreign checkpoints: their weight names, their files, and checkpoints on a server.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/pickle_bytes.h"
#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/fetch_checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/verify_file.h"
#include "lockstep/checkpoint/weights.h"
#include "support/fault_of.h"
#include "support/http_server.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace weights_test {

namespace fs = std::filesystem;
using test::fault_of;
using test::http_answer;
using test::HttpServer;
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
  for (const std::string key : {"model", "state_dict", "model_state_dict", "module", "net"}) {
    const TorchValue part{TorchDict{{key, state(1)}, {"ema", {TorchDict{{"bias", {at::full({2}, 2.0)}}}}}}};
    EXPECT_EQ(value_of(pick_weights(part, "x.pth")), 1) << key;
    EXPECT_EQ(pick_weights(part, "x.pth").origin, "x.pth, " + key);
    EXPECT_EQ(value_of(pick_weights(part, "x.pth", {"ema"})), 2) << key;
    const TorchValue whole{TorchDict{{key, state(1)}, {"ema", state(2)}}};
    EXPECT_EQ(value_of(pick_weights(whole, "x.pth")), 2) << key;
  }
}

/// The state of torch.optim.swa_utils.AveragedModel.
TorchValue averaged_model(double value, std::int64_t count) {
  return {TorchDict{{"n_averaged", {at::full({}, count, at::kLong)}},
                    {"module.weight", {at::full({2, 3}, value)}},
                    {"module.bias", {at::full({2}, value)}}}};
}

TEST(Weights, TheAverageOfPyTorchsAveragedModelIsWhole) {
  const TorchValue both{TorchDict{{"model", state(1)}, {"ema", averaged_model(2, 5)}}};
  const Weights weights = pick_weights(both, "x.pth");
  EXPECT_EQ(value_of(weights), 2);
  EXPECT_EQ(weights.origin, "x.pth, ema");
  EXPECT_EQ(weights.tensors.size(), 2U);
  EXPECT_EQ(pick_weights(averaged_model(2, 5), "x.pth").tensors.size(), 2U);
}

TEST(Weights, ACountBesideNamesWithoutModuleStays) {
  const TorchValue plain{TorchDict{{"n_averaged", {at::ones({1})}}, {"b", {at::ones({1})}}}};
  EXPECT_EQ(pick_weights(plain, "x.pth").tensors.size(), 2U);
  const TorchValue alone{TorchDict{{"n_averaged", {at::ones({1})}}}};
  EXPECT_EQ(pick_weights(alone, "x.pth").tensors.size(), 1U);
}

TEST(Weights, TheUsualNamesAreFoundBelowEachOther) {
  const TorchValue deep{TorchDict{{"checkpoint", {TorchDict{{"state_dict", state(3)}}}}, {"epoch", {1L}}}};
  EXPECT_EQ(value_of(pick_weights(deep, "x.pth", {"checkpoint"})), 3);
  EXPECT_EQ(value_of(pick_weights({TorchDict{{"model", {TorchDict{{"state_dict", state(3)}}}}}}, "x.pth")), 3);
  const std::string fault = fault_of<DataError>([&] { (void)pick_weights(deep, "x.pth"); });
  EXPECT_THAT(fault, HasSubstr("x.pth: it holds no named tensors"));
  EXPECT_THAT(fault, HasSubstr("select one as x.pth:STATE; available states: checkpoint"));
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
  EXPECT_THAT(fault(R"({"weight_map": {"bias": "m-2.safetensors"}})"), HasSubstr("'bias' should be in m-2"));
  EXPECT_THAT(fault(R"({"weight_map": {"bias": "../m-1.safetensors"}})"),
              HasSubstr("not the name of a file beside the index"));
  EXPECT_THAT(fault(R"({"weight_map": {"bias": "m-3.safetensors"}})"), HasSubstr("m-3.safetensors does not exist"));
  EXPECT_THAT(fault("{}"), HasSubstr("no weight_map"));
  EXPECT_THAT(fault("["), HasSubstr("not JSON"));
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
            "different shape, left unchanged: 1\n  b  [3, 4] in the model, [3, 5] in the file\n"
            "not in the file, left unchanged: 1\n  c\n"
            "only in the file, not used: 1\n  x\n");
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
              HasSubstr("f: 'embed' and 'head' are one tensor of the model but differ in the file"));
}

TEST(MatchWeights, ItsListsAreCutAndCounted) {
  NamedTensors model = {{"fits", at::zeros({1})}};
  for (int i = 0; i < 25; ++i) model.emplace_back("m" + std::to_string(i), at::zeros({1}));
  const std::string text = to_text(match_weights(model, {{"fits", at::ones({1})}}));
  EXPECT_THAT(text, HasSubstr("not in the file, left unchanged: 25\n"));
  EXPECT_THAT(text, HasSubstr("  ... and 5 more\n"));
}

TEST(MatchWeights, NothingThatFitsIsAnErrorWithTheNearestNames) {
  const NamedTensors model = {{"features.0.weight", at::zeros({1})}};
  const auto fault = [&](const StateDict& state) {
    return fault_of<DataError>([&] { copy_weights(model, {state, "f.pth"}); });
  };
  EXPECT_THAT(fault({{"feature.0.weight", at::ones({1})}}),
              HasSubstr("f.pth: none of its 1 tensors fits the model: 'features.0.weight' (nearest in the file: "
                        "'feature.0.weight')"));
  EXPECT_THAT(fault({{"features.0.weight", at::ones({2})}}), HasSubstr("is [1] in the model and [2] in the file"));
  EXPECT_THAT(fault({{"z", at::ones({2})}}), HasSubstr("the model begins with 'features.0.weight', the file with 'z'"));
}

// Conversion between checkpoints and the files of other programs, and what inspect and verify report on such files.

FileSystem& files() { return FileSystem::system(); }

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string flipped(std::string bytes, std::size_t at) {
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  return bytes;
}

TEST(Import, ModelAverageAndPlainValuesOfANestedCheckpoint) {
  const ImportedStates imported = import_states(read_any_file(files(), golden("nested.pth")), "nested.pth");
  ASSERT_EQ(imported.states.size(), 3U);
  const auto& model = imported.states.at("model");
  EXPECT_EQ(std::get<at::Tensor>(model.at("bn.num_batches_tracked")).item<std::int64_t>(), 7);
  const auto& ema = imported.states.at("ema");
  EXPECT_EQ(std::get<at::Tensor>(ema.at("bn.num_batches_tracked")).item<std::int64_t>(), 107);
  EXPECT_EQ(std::get<std::int64_t>(ema.at("ema.updates")), 12);
  EXPECT_EQ(std::get<std::int64_t>(imported.states.at("values").at("last_epoch")), 3);
  EXPECT_THAT(imported.left_out,
              ElementsAre("optimizer: PyTorch keeps it by position, not by name", "best: a dict of 2", "none: None",
                          "flags: a list of 2", "size: a list of 2", "counter: a dict of 1"));
}

TEST(Import, AnAveragedModelOfPyTorchIsTheAverageWithItsCount) {
  const TorchValue both{TorchDict{{"model", state(1)}, {"ema", averaged_model(2, 5)}}};
  const ImportedStates imported = import_states(both, "x.pth");
  const StateDict& ema = imported.states.at("ema");
  ASSERT_EQ(ema.size(), 3U);
  EXPECT_EQ(std::get<at::Tensor>(ema.at("bias"))[0].item<double>(), 2);
  EXPECT_EQ(std::get<std::int64_t>(ema.at("ema.updates")), 5);
}

TEST(Import, AFlatFileIsTheModel) {
  const ImportedStates imported = import_states(read_any_file(files(), golden("state_dict.pth")), "x.pth");
  ASSERT_EQ(imported.states.size(), 1U);
  EXPECT_EQ(imported.states.at("model").size(), 2U);
  EXPECT_EQ(imported.states.at("model").count("conv.weight"), 1U);
  EXPECT_TRUE(imported.left_out.empty());
}

TEST(Import, WhatHoldsNoModelIsRefused) {
  EXPECT_THAT(fault_of<DataError>([] {
                (void)import_states({TorchDict{{"a", {1L}}}}, "x.pth");
              }),
              HasSubstr("x.pth: it holds no named tensors"));
  EXPECT_THAT(fault_of<DataError>([] { (void)import_states({TorchList{}}, "x.pth"); }), HasSubstr("no named tensors"));
  EXPECT_THAT(fault_of<DataError>([] { (void)read_any_file(files(), "/nowhere.pth"); }), HasSubstr("is not a file"));
}

class Export : public ::testing::Test {
 protected:
  Export() {
    CheckpointStates states = test::states_of(10);
    states["ema"] = {{"conv.weight", at::full({2, 3, 4}, 0.5)}, {"ema.updates", std::int64_t{3}}};
    commit_checkpoint(files(), folder_ / "run/checkpoints", {.step = 10}, states);
  }
  test::TempDir folder_;
  std::string run_ = (folder_ / "run").string();
};

TEST_F(Export, WritesTheModelInBothFormatsAndReadsItBack) {
  for (const char* name : {"x.safetensors", "x.pth"}) {
    EXPECT_EQ(export_weights(run_, folder_ / name), 2);
    const Weights back = load_weights(folder_ / name);
    EXPECT_TRUE(test::same_state(back.tensors, test::states_of(10).at("model"))) << name;
  }
}

TEST_F(Export, TakesAStateAndAPrefix) {
  EXPECT_EQ(export_weights(run_, folder_ / "x.safetensors", {.state = "ema", .prefix = "module."}), 1);
  const StateDict back = read_safetensors(files(), folder_ / "x.safetensors");
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(back.at("module.conv.weight")), at::full({2, 3, 4}, 0.5)));
  EXPECT_EQ(export_weights(run_, folder_ / "all.pth", {.state = "all"}), 3);
  const TorchValue all = read_torch_file(files(), folder_ / "all.pth");
  EXPECT_EQ(std::get<std::int64_t>(all.find("step")->value), 10);
  EXPECT_EQ(std::get<double>(all.find("trainer")->find("best")->value), 10.25);
  EXPECT_EQ(std::get<std::int64_t>(all.find("ema")->find("ema.updates")->value), 3);
}

TEST_F(Export, ConvertsFilesToo) {
  EXPECT_EQ(export_weights(golden("state_dict.pth"), folder_ / "x.safetensors"), 2);
  EXPECT_EQ(export_weights(golden("nested.pth"), folder_ / "y.safetensors", {.state = "model"}), 2);
  EXPECT_EQ(export_weights((folder_ / "x.safetensors").string(), folder_ / "z.pth"), 2);
  EXPECT_EQ(load_weights(folder_ / "z.pth").tensors.count("conv.weight"), 1U);
}

TEST_F(Export, WhatCannotBeWrittenLeavesTheOldFile) {
  write(folder_ / "x.txt", "old");
  EXPECT_THAT(fault_of<UsageError>([&] { export_weights(run_, folder_ / "x.txt"); }),
              HasSubstr("the extension selects"));
  EXPECT_THAT(fault_of<UsageError>([&] { export_weights(run_, folder_ / "x.safetensors", {.state = "all"}); }),
              HasSubstr("holds one state"));
  EXPECT_THAT(fault_of<DataError>([&] { export_weights(run_, folder_ / "x.pth", {.state = "emma"}); }),
              HasSubstr("did you mean 'ema'"));
  EXPECT_EQ(files().list(folder_.path()), (std::vector<std::string>{"run", "x.txt"}));
}

TEST_F(Export, PyTorchReadsWhatWasExportedAndItsFilesAreImported) {
  if (testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0) GTEST_SKIP() << "python3-torch is not there";
  export_weights(run_, folder_ / "x.pth", {.prefix = "module."});
  write(folder_ / "check.py", R"(
import torch
d = torch.load("x.pth", weights_only=True)
assert list(d) == ["module.bn.num_batches_tracked", "module.conv.weight"], list(d)
assert torch.equal(d["module.conv.weight"], torch.arange(24.0).reshape(2, 3, 4) + 10)
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
torch.save({"model": torch.nn.DataParallel(net).state_dict(), "epoch": 7}, "y.pth")
print(float(net[0].weight[1, 2]))
)");
  const auto output = testing::run_shell("cd " + folder_.path().string() + " && /usr/bin/python3 check.py");
  ASSERT_EQ(output.code, 0) << output.text;
  const ImportedStates imported = import_states(read_any_file(files(), folder_ / "y.pth"), "y.pth");
  EXPECT_EQ(imported.states.at("model").size(), 7U);
  EXPECT_FLOAT_EQ(std::get<at::Tensor>(imported.states.at("model").at("0.weight"))[1][2].item<float>(),
                  std::stof(output.text));
  EXPECT_EQ(std::get<std::int64_t>(imported.states.at("values").at("epoch")), 7);
}

TEST(VerifyFile, NamesTheMemberThatIsTorn) {
  const test::TempDir folder;
  const std::string whole = files().read(golden("state_dict.pth"));
  write(folder / "x.pth", whole);
  EXPECT_THAT(
      to_text(verify_file(files(), folder / "x.pth")),
      HasSubstr("x.pth: whole (1.2 kB; a CRC-32 of each of 4 members; it holds tensors and plain values only)"));
  const std::size_t weight = whole.find(std::string("\x80\x3f", 2));  // 1.0f
  write(folder / "x.pth", flipped(whole, weight));
  const FileReport report = verify_file(files(), folder / "x.pth");
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(to_text(report), HasSubstr("x.pth: 'state_dict/data/0': its bytes have CRC-32"));
  write(folder / "x.npz", flipped(test::zip_of({{"a.npy", "123"}, {"b.npy", "456"}}), 64));
  EXPECT_THAT(to_text(verify_file(files(), folder / "x.npz")), HasSubstr("x.npz: 'a.npy': its bytes"));
  write(folder / "x.pth", whole.substr(0, 500));
  EXPECT_THAT(to_text(verify_file(files(), folder / "x.pth")), HasSubstr("cut short"));
}

/// The verdict of verify and inspect on a file with these bytes; both must accept or both reject it.
std::string verdict(const std::string& bytes, const std::string& name = "x.pth") {
  const test::TempDir folder;
  write(folder / name, bytes);
  const FileReport report = verify_file(files(), folder / name);
  bool is_taken = true;
  try {
    (void)describe_file(files(), folder / name);
  } catch (const DataError&) {
    is_taken = false;
  }
  EXPECT_EQ(report.ok(), is_taken);
  return to_text(report);
}

std::string torch_zip(const std::string& pickle, const std::string& storage = std::string(24, 'x')) {
  return test::zip_of({{"x/data.pkl", pickle}, {"x/data/0", storage}});
}

TEST(VerifyFile, ReadsATorchFileAsInspectDoes) {
  const std::string call = test::pickle_of(test::pickled_name("os", "system") + "(" + test::pickled_text("id") + "tR");
  EXPECT_THAT(verdict(torch_zip(call)),
              HasSubstr("x.pth: GLOBAL at byte 2: tensors and plain values do not need the name \"os.system\""));
  EXPECT_THAT(verdict(torch_zip(test::pickle_of(test::pickled_tensor({})))), HasSubstr("whole"));
  EXPECT_THAT(verdict(torch_zip(test::pickle_of(test::pickled_tensor({.key = "7"})))),
              HasSubstr("storage '7' is missing"));
  EXPECT_THAT(verdict(torch_zip(test::pickle_of(test::pickled_tensor({})), "short")), HasSubstr("storage '0' has 5"));
  EXPECT_THAT(verdict(torch_zip("")), HasSubstr("cut short"));
  EXPECT_THAT(verdict(test::zip_of({{"x/other", "1"}})), HasSubstr("without data.pkl is not a torch file"));
}

TEST(VerifyFile, RefusesAZipFileThatHoldsNothing) {
  for (const char* name : {"x.pth", "x.pt", "x.npz", "x.zip"}) {
    const test::TempDir folder;
    write(folder / name, test::zip_of({}));
    EXPECT_THAT(to_text(verify_file(files(), folder / name)), HasSubstr("an empty zip file")) << name;
  }
}

TEST(VerifyFile, RefusesAKeyThatIsNoUtf8) {
  const auto with_key = [](const std::string& key) {
    return torch_zip(test::pickle_of("}" + test::pickled_text(key) + test::pickled_tensor({}) + "s"));
  };
  EXPECT_THAT(verdict(with_key("gr\xc3\xbcn")), HasSubstr("whole"));
  for (const char* key : {"gr\xfcn", "\xed\xa0\x80", "\xc0\xaf", "a\xc3"}) {
    EXPECT_THAT(verdict(with_key(key)), HasSubstr("is not UTF-8")) << key;
  }
}

// Four members, each with 300 MB of zeros in 300 kB.
TEST(VerifyFile, DoesNotUnpackWhatIsFarLargerThanTheFile) {
  const test::TempDir folder;
  write(folder / "bomb.py", R"(
import zipfile
with zipfile.ZipFile("x.pth", "w", zipfile.ZIP_DEFLATED) as file:
    file.writestr("x/data.pkl", b"\x80\x02}.")
    for i in range(4):
        with file.open(f"x/data/{i}", "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(bytes(1000000))
)");
  ASSERT_EQ(testing::run_shell("cd " + folder.path().string() + " && /usr/bin/python3 bomb.py").code, 0);
  EXPECT_THAT(to_text(verify_file(files(), folder / "x.pth")), HasSubstr("it unpacks from 1.2 MB to"));
}

TEST(VerifyFile, ReadsEveryPartOfAnIndex) {
  const test::TempDir folder;
  write_safetensors(files(), folder / "a.safetensors", {{"a", at::ones({3})}});
  const auto index = [&](const std::string& name, const std::string& part) {
    write(folder / "m.safetensors.index.json", R"({"weight_map": {")" + name + R"(": ")" + part + R"("}})");
    return to_text(verify_file(files(), folder / "m.safetensors.index.json"));
  };
  EXPECT_THAT(index("a", "a.safetensors"), HasSubstr("whole"));
  EXPECT_THAT(index("b", "a.safetensors"), HasSubstr("'b' should be in a.safetensors, but is not there"));
  EXPECT_THAT(index("a", "../a.safetensors"), HasSubstr("not the name of a file beside the index"));
  EXPECT_THAT(index("a", "gone.safetensors"), HasSubstr("gone.safetensors"));
}

TEST(VerifyFile, SaysWhatSafetensorsCannotProve) {
  const test::TempDir folder;
  write_safetensors(files(), folder / "x.safetensors", {{"a", at::ones({3})}});
  EXPECT_THAT(to_text(verify_file(files(), folder / "x.safetensors")), HasSubstr("the format has no checksum"));
  write(folder / "x.safetensors", files().read(folder / "x.safetensors") + "x");
  EXPECT_THAT(to_text(verify_file(files(), folder / "x.safetensors")), HasSubstr("bytes are left over"));
  write(folder / "x.txt", "hello");
  EXPECT_THROW((void)verify_file(files(), folder / "x.txt"), DataError);
}

TEST(Describe, AFilesStatesAreTablesWithNorms) {
  const std::string text = to_text(describe_file(files(), golden("nested.pth")));
  EXPECT_THAT(text, HasSubstr("\nmodel: 2 entries, 25 elements, 104 B\n"));
  EXPECT_THAT(text, HasSubstr("  module.conv.weight             float32 [2, 3, 4]       96 B  norm 65.7571\n"));
  EXPECT_THAT(text, HasSubstr("  param_groups.0.lr"));
  EXPECT_THAT(text, HasSubstr("\n(top): "));
  const auto json = nlohmann::json::parse(to_json(describe_file(files(), golden("types.pth"))));
  EXPECT_EQ(json["states"][""].size(), 16U);
  const auto flat = to_text(describe_file(files(), golden("types.pth")));
  EXPECT_THAT(flat, HasSubstr("complex64 [3]"));
}

// A checkpoint from a server in this process that serves a step folder's files.

class FetchCheckpoint : public ::testing::Test {
 protected:
  FetchCheckpoint() {
    step_ = commit_checkpoint(FileSystem::system(), folder_ / "checkpoints", {.step = 12}, test::states_of(3),
                              {{"config.yml", "seed: 1\n"}});
  }

  FetchOptions options() const {
    return {.cache = cache_.path(), .tries = 1, .first_wait = std::chrono::milliseconds(0)};
  }

  std::string error_of(const std::string& url) const {
    try {
      (void)fetch_checkpoint(url, options());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  test::TempDir folder_;
  test::TempDir cache_;
  fs::path step_;
  HttpServer server_{[this](const std::string& request, std::size_t) {
    const auto begin = request.find("/runs/a/") + 8;
    const std::string name = request.substr(begin, request.find_first_of(" ?", begin) - begin);
    if (request.find("/runs/a/") == std::string::npos || !fs::exists(step_ / name)) {
      return http_answer("404 Not Found", "", "");
    }
    return http_answer("200 OK", "ETag: \"v1\"\r\n", FileSystem::system().read(step_ / name, 64U << 20U));
  }};
};

TEST_F(FetchCheckpoint, BringsAWholeStepFolderOnce) {
  const fs::path path = fetch_checkpoint(server_.url("/runs/a/"), options());
  EXPECT_EQ(path.filename(), "step-00000012");
  const Checkpoint checkpoint = load_checkpoint(path.string());
  EXPECT_TRUE(test::is_of(checkpoint, 3));
  EXPECT_EQ(checkpoint.text("config.yml"), "seed: 1\n");
  const std::size_t requests = server_.requests().size();
  EXPECT_EQ(requests, 4U) << "the manifest, two states and a text";
  EXPECT_EQ(fetch_checkpoint(server_.url("/runs/a"), options()), path);
  EXPECT_EQ(server_.requests().size(), requests);
}

TEST_F(FetchCheckpoint, KeepsTheQueryOfASignedUrl) {
  EXPECT_EQ(fetch_checkpoint(server_.url("/runs/a?key=1"), options()).filename(), "step-00000012");
  EXPECT_THAT(server_.requests()[1], HasSubstr("/runs/a/config.yml?key=1 "));
}

TEST_F(FetchCheckpoint, NeverTakesBytesThatTheManifestDoesNotKnow) {
  const std::string whole = FileSystem::system().read(step_ / "model.safetensors");
  fs::resize_file(step_ / "model.safetensors", whole.size() - 1);
  EXPECT_THAT(error_of(server_.url("/runs/a")), HasSubstr("/runs/a/model.safetensors is torn: "));
  write_file_atomically(FileSystem::system(), step_ / "model.safetensors", whole);
  EXPECT_EQ(fetch_checkpoint(server_.url("/runs/a"), options()).filename(), "step-00000012")
      << "the bad one was not kept";
}

TEST_F(FetchCheckpoint, TakesNoMoreThanTheManifestSays) {
  const std::string whole = FileSystem::system().read(step_ / "config.yml");
  write_file_atomically(FileSystem::system(), step_ / "config.yml", whole + std::string(100'000, '#'));
  EXPECT_THAT(error_of(server_.url("/runs/a?key=hidden")), HasSubstr("the limit is 8 B"));
  EXPECT_THAT(error_of(server_.url("/runs/a?key=hidden")), ::testing::Not(HasSubstr("hidden")));
}

TEST_F(FetchCheckpoint, TakesNoManifestOfMoreThan16MiB) {
  write_file_atomically(FileSystem::system(), step_ / "manifest.json", std::string((16U << 20U) + 1, ' '));
  EXPECT_THAT(error_of(server_.url("/runs/a")), HasSubstr("the limit is 16.8 MB"));
}

TEST_F(FetchCheckpoint, PromisesNoHashThatItDoesNotCompare) {
  EXPECT_THROW((void)fetch_checkpoint(server_.url("/runs/a#sha256=" + std::string(64, '0')), options()), UsageError);
  EXPECT_EQ(server_.requests().size(), 0U);
}

TEST_F(FetchCheckpoint, SaysThatThereIsNone) {
  EXPECT_THAT(error_of(server_.url("/runs/b")), HasSubstr("404"));
  write_file_atomically(FileSystem::system(), step_ / "manifest.json", "<html>\n");
  EXPECT_THAT(error_of(server_.url("/runs/a")), HasSubstr("is not a manifest"));
}

}  // namespace weights_test
}  // namespace lockstep
