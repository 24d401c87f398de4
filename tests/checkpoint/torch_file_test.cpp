// SPDX-License-Identifier: Apache-2.0
// Files that PyTorch wrote (golden/make_torch_files.py), files that it must be able to read, and files that attack.
#include "lockstep/checkpoint/torch_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/pickle_bytes.h"
#include "lockstep/base/error.h"
#include "support/fault_of.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace torch_file_test {

using test::fault_of;
using test::pickle_of;
using test::pickled_tensor;
using ::testing::HasSubstr;

TorchValue read(const std::filesystem::path& path) { return read_torch_file(FileSystem::system(), path); }

TorchValue golden(const std::string& name) {
  return read(std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/checkpoint/golden" / name);
}

template <class T>
const T& in(const TorchValue& value, const std::string& key) {
  const TorchValue* found = value.find(key);
  if (found == nullptr) throw std::runtime_error("no " + key);
  return std::get<T>(found->value);
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The error of reading a torch file of this pickle and these storages.
std::string refusal(const std::string& pickle, const test::Members& storages = {}) {
  const test::TempDir folder;
  test::Members members = {{"x/data.pkl", pickle}};
  for (const auto& [key, bytes] : storages) members.emplace_back("x/data/" + key, bytes);
  write(folder / "x.pth", test::zip_of(members));
  return fault_of<DataError>([&] { (void)read(folder / "x.pth"); });
}

TEST(TorchFile, ReadsAStateDictOfPyTorch) {
  for (const char* name : {"state_dict.pth", "deflated.pth"}) {
    const TorchValue state = golden(name);
    ASSERT_EQ(state.dict()->size(), 2U);
    const auto& weight = in<at::Tensor>(state, "module.conv.weight");
    EXPECT_TRUE(at::equal(weight, at::arange(24, at::kFloat).reshape({2, 3, 4})));
    EXPECT_EQ(in<at::Tensor>(state, "module.bn.num_batches_tracked").item<std::int64_t>(), 7);
  }
}

TEST(TorchFile, ReadsANestedCheckpointWithItsPlainValues) {
  const TorchValue all = golden("nested.pth");
  EXPECT_EQ(in<std::int64_t>(all, "last_epoch"), 3);
  EXPECT_EQ(in<std::int64_t>(all, "big"), std::int64_t{1} << 40);
  EXPECT_EQ(in<double>(*all.find("best"), "acc"), 0.25);
  EXPECT_EQ(in<std::string>(*all.find("best"), "text"), "grün");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(all.find("none")->value));
  EXPECT_EQ(in<std::string>(all, "dtype"), "torch.float32");
  EXPECT_EQ(in<std::string>(all, "device"), "cpu");
  EXPECT_EQ(in<TorchList>(all, "size").size(), 2U);
  const TorchValue& average = *all.find("ema")->find("module");
  EXPECT_EQ(in<at::Tensor>(average, "module.conv.weight")[0][0][0].item<float>(), 100);
  const TorchValue& optimizer = *all.find("optimizer");
  EXPECT_EQ(in<TorchList>(optimizer, "param_groups").size(), 1U);
  EXPECT_EQ(std::get<TorchDict>(optimizer.find("state")->value).size(), 2U);
}

TEST(TorchFile, ReadsEveryTypeAndEveryStride) {
  const TorchValue all = golden("types.pth");
  const at::Tensor expected = at::tensor({0, 1, 3}, at::kLong);
  for (const auto& [name, type] :
       std::vector<std::pair<std::string, at::ScalarType>>{{"float64", at::kDouble},
                                                           {"float16", at::kHalf},
                                                           {"bfloat16", at::kBFloat16},
                                                           {"int16", at::kShort},
                                                           {"int8", at::kChar},
                                                           {"uint8", at::kByte},
                                                           {"bool", at::kBool},
                                                           {"complex64", at::kComplexFloat},
                                                           {"complex128", at::kComplexDouble}}) {
    const auto& tensor = in<at::Tensor>(all, name);
    EXPECT_EQ(tensor.scalar_type(), type);
    EXPECT_TRUE(at::equal(tensor, expected.to(type))) << name;
  }
  const at::Tensor base = at::arange(12, at::kFloat);
  EXPECT_TRUE(at::equal(in<at::Tensor>(all, "transposed"), base.reshape({3, 4}).t()));
  EXPECT_EQ(in<at::Tensor>(all, "transposed").strides(), (at::IntArrayRef{1, 4}));
  EXPECT_TRUE(at::equal(in<at::Tensor>(all, "shifted"), base.slice(0, 5)));
  EXPECT_EQ(in<at::Tensor>(all, "empty").sizes(), (at::IntArrayRef{0, 3}));
  EXPECT_TRUE(at::equal(in<at::Tensor>(all, "parameter"), at::ones({2})));
  EXPECT_EQ(in<at::Tensor>(all, "transposed").data_ptr<float>() + 5, in<at::Tensor>(all, "shifted").data_ptr<float>());
}

TEST(TorchFile, ReadsPickleProtocolFour) {
  const TorchValue all = golden("protocol4.pth");
  EXPECT_EQ(in<at::Tensor>(all, "a").numel(), 3);
  EXPECT_EQ(in<std::string>(all, "long").size(), 300U);
}

TEST(TorchFile, RefusesAPickleThatPyTorchWouldRun) {
  const std::string fault = fault_of<DataError>([] { (void)golden("attack.pth"); });
  EXPECT_THAT(fault, HasSubstr("attack.pth: GLOBAL at byte"));
  EXPECT_THAT(fault, HasSubstr("builtin"));
  EXPECT_THAT(fault, HasSubstr("eval\" is none that tensors and plain values need"));
}

TEST(TorchFile, NamesTheWayFromAnOldFile) {
  const std::string fault = fault_of<DataError>([] { (void)golden("before_1_6.pth"); });
  EXPECT_THAT(fault, HasSubstr("torch.save's format before 1.6"));
  EXPECT_THAT(fault, HasSubstr("torch.save(torch.load(FILE"));
}

TEST(TorchFile, RefusesStoragesThatAreNotTheirMember) {
  EXPECT_EQ(refusal(pickle_of(pickled_tensor({})), {{"0", std::string(24, '\0')}}), "not thrown");
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({})), {{"0", std::string(20, '\0')}}),
              HasSubstr("storage '0' has 20 bytes, its 6 elements take another number"));
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({.elements = std::int64_t{1} << 62})), {{"0", std::string(24, '\0')}}),
              HasSubstr("take another number"));
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({}))), HasSubstr("storage '0' is missing"));
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({.storage_class = "BoolStorage"})), {{"0", "\1\1\1\1\1\2"}}),
              HasSubstr("element 5 of storage '0' is no boolean"));
}

TEST(TorchFile, RefusesTensorsThatWouldTakeAllMemory) {
  const std::string bomb = pickle_of(pickled_tensor({.sizes = {1 << 20, 1 << 20}, .strides = {0, 0}}));
  EXPECT_THAT(refusal(bomb, {{"0", std::string(24, '\0')}}), HasSubstr("its tensors would take 4.4e+12 bytes"));
  const std::string expanded = pickle_of(pickled_tensor({.sizes = {1000, 6}, .strides = {0, 1}}));
  EXPECT_EQ(refusal(expanded, {{"0", std::string(24, '\0')}}), "not thrown");
}

TEST(TorchFile, RefusesOtherZipFilesAndOtherFiles) {
  const test::TempDir folder;
  const auto fault = [&](const std::string& bytes) {
    write(folder / "x.pth", bytes);
    return fault_of<DataError>([&] { (void)read(folder / "x.pth"); });
  };
  const std::string none = pickle_of("N");
  EXPECT_THAT(fault(test::zip_of({{"a.npy", "x"}})), HasSubstr("without data.pkl is no torch file"));
  EXPECT_THAT(fault(test::zip_of({{"a/data.pkl", none}, {"b/data.pkl", none}})), HasSubstr("two data.pkl"));
  EXPECT_THAT(fault(test::zip_of({{"a/data.pkl", none}, {"a/constants.pkl", "x"}})), HasSubstr("TorchScript"));
  EXPECT_THAT(fault(test::zip_of({{"a/data.pkl", none}, {"a/byteorder", "big"}})), HasSubstr("big-endian"));
  EXPECT_THAT(fault("hello"), HasSubstr("no torch file"));
  EXPECT_THAT(fault(""), HasSubstr("no torch file"));
  std::string torn = test::zip_of({{"a/data.pkl", none}});
  torn[torn.find(none) + 2] = 'O';
  EXPECT_THAT(fault(torn), HasSubstr("'a/data.pkl': its bytes have CRC-32"));
}

TEST(TorchFile, ReadsBackWhatItWrote) {
  const test::TempDir folder;
  const at::Tensor weight = at::arange(6, at::kFloat).reshape({2, 3});
  const TorchValue written{TorchDict{{"weight", {weight.t()}},
                                     {"tied", {weight.t()}},
                                     {"empty", {at::ones({0, 2}, at::kBFloat16)}},
                                     {"bool", {at::ones({3}, at::kBool)}},
                                     {std::int64_t{4}, {TorchList{{true}, {-3L}, {0.5}, {std::string("x")}, {}}}}}};
  write_torch_file(FileSystem::system(), folder / "x.pth", written);
  const TorchValue back = read(folder / "x.pth");
  EXPECT_TRUE(at::equal(in<at::Tensor>(back, "weight"), weight.t()));
  EXPECT_EQ(in<at::Tensor>(back, "weight").data_ptr(), in<at::Tensor>(back, "tied").data_ptr());
  EXPECT_EQ(in<at::Tensor>(back, "empty").sizes(), (at::IntArrayRef{0, 2}));
  EXPECT_TRUE(in<at::Tensor>(back, "bool").all().item<bool>());
  const auto& list = std::get<TorchList>((*back.dict())[4].second.value);
  EXPECT_EQ(std::get<std::int64_t>((*back.dict())[4].first), 4);
  EXPECT_EQ(std::get<bool>(list[0].value), true);
  EXPECT_EQ(std::get<std::int64_t>(list[1].value), -3);
  EXPECT_EQ(std::get<double>(list[2].value), 0.5);
  EXPECT_EQ(std::get<std::string>(list[3].value), "x");
  EXPECT_EQ(list[4].value.index(), 0U);
}

TEST(TorchFile, WhatCannotBeSavedIsNamed) {
  const test::TempDir folder;
  const TorchValue sparse{TorchDict{{"model", {TorchDict{{"w", {at::ones({2}).to_sparse()}}}}}}};
  const std::string fault =
      fault_of<UsageError>([&] { write_torch_file(FileSystem::system(), folder / "x.pth", sparse); });
  EXPECT_THAT(fault, HasSubstr("cannot save 'model.w': the tensor is not dense"));
}

TEST(TorchFile, PyTorchReadsItWithWeightsOnly) {
  if (testing::run_shell("/usr/bin/python3 -c 'import torch'").code != 0) GTEST_SKIP() << "python3-torch is not there";
  const test::TempDir folder;
  const at::Tensor weight = at::arange(6, at::kFloat).reshape({2, 3}).t();
  TorchDict dict{{"weight", {weight}},
                 {"scalar", {at::full({}, 2.5, at::kDouble)}},
                 {"empty", {at::ones({0, 2}, at::kLong)}},
                 {"steps", {std::int64_t{1} << 40}},
                 {"name", {std::string("grün")}},
                 {"flag", {true}}};
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kBool, at::kChar, at::kShort, at::kInt, at::kByte}) {
    dict.emplace_back(c10::toString(type), TorchValue{at::ones({3}, type)});
  }
  write_torch_file(FileSystem::system(), folder / "x.pth", {dict});
  const std::string program = R"(
import torch, zipfile
d = torch.load("x.pth", weights_only=True)
assert d["weight"].tolist() == [[0, 3], [1, 4], [2, 5]], d["weight"]
assert d["scalar"].item() == 2.5 and d["scalar"].dtype == torch.float64 and d["scalar"].shape == ()
assert d["empty"].shape == (0, 2) and d["steps"] == 2**40 and d["name"] == "gr\u00fcn" and d["flag"] is True
for name in ("Half", "BFloat16", "Bool", "Char", "Short", "Int", "Byte"):
    assert d[name].to(torch.int64).tolist() == [1, 1, 1], name
assert zipfile.ZipFile("x.pth").testzip() is None
)";
  write(folder / "check.py", program);
  const auto output = testing::run_shell("cd " + folder.path().string() + " && /usr/bin/python3 check.py");
  EXPECT_EQ(output.code, 0) << output.text;
}

}  // namespace torch_file_test
}  // namespace lockstep
