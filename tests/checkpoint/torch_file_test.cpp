// SPDX-License-Identifier: Apache-2.0
// PyTorch files, and the pickles and zip archives in them.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "checkpoint/pickle_bytes.h"
#include "checkpoint/torch/pickle_parse.h"
#include "checkpoint/torch/pickle_write.h"
#include "checkpoint/torch/zip_layout.h"
#include "checkpoint/torch/zip_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/torch_file.h"
#include "support/fault_of.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace torch_file_test {

using test::fault_of;
using test::pickle_of;
using test::pickled_tensor;
using ::testing::HasSubstr;

// Files written by PyTorch (golden/make_torch_files.py), files that PyTorch must be able to read, and hostile files.

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

/// The error from reading a torch file with this pickle and these storages.
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

TEST(TorchFile, ReadsAFileWhoseNameHasAColon) {  // torch.save("a:b.pth") names the members a:b/...
  const test::TempDir folder;
  const std::string storage(24, '\0');
  write(folder / "a:b.pth", test::zip_of({{"a:b/data.pkl", pickle_of(pickled_tensor({}))}, {"a:b/data/0", storage}}));
  EXPECT_EQ(std::get<at::Tensor>(read(folder / "a:b.pth").value).numel(), 6);
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
  EXPECT_THAT(fault, HasSubstr("eval\"; an object of that name could run any code"));
}

TEST(TorchFile, NamesTheWayFromAnOldFile) {
  const std::string fault = fault_of<DataError>([] { (void)golden("before_1_6.pth"); });
  EXPECT_THAT(fault, HasSubstr("used before PyTorch 1.6"));
  EXPECT_THAT(fault, HasSubstr("torch.save(torch.load(FILE"));
}

TEST(TorchFile, RefusesStoragesThatAreNotTheirMember) {
  EXPECT_EQ(refusal(pickle_of(pickled_tensor({})), {{"0", std::string(24, '\0')}}), "not thrown");
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({})), {{"0", std::string(20, '\0')}}),
              HasSubstr("storage '0' has 20 bytes, which do not match its 6 elements"));
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({.elements = std::int64_t{1} << 62})), {{"0", std::string(24, '\0')}}),
              HasSubstr("which do not match"));
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({}))), HasSubstr("storage '0' is missing"));
  EXPECT_THAT(refusal(pickle_of(pickled_tensor({.storage_class = "BoolStorage"})), {{"0", "\1\1\1\1\1\2"}}),
              HasSubstr("element 5 of storage '0' is not a boolean"));
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
  EXPECT_THAT(fault(test::zip_of({{"a.npy", "x"}})), HasSubstr("without data.pkl is not a torch file"));
  EXPECT_THAT(fault(test::zip_of({{"a/data.pkl", none}, {"b/data.pkl", none}})), HasSubstr("two data.pkl files"));
  EXPECT_THAT(fault(test::zip_of({{"a/data.pkl", none}, {"a/constants.pkl", "x"}})), HasSubstr("TorchScript"));
  EXPECT_THAT(fault(test::zip_of({{"a/data.pkl", none}, {"a/byteorder", "big"}})), HasSubstr("big-endian"));
  EXPECT_THAT(fault("hello"), HasSubstr("not a torch file"));
  EXPECT_THAT(fault(""), HasSubstr("not a torch file"));
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

TEST(TorchFile, ViewsThatConjugateOrNegateAreWrittenWithTheirOwnValues) {
  const test::TempDir folder;
  const at::Tensor plain = at::view_as_complex(at::arange(6, at::kFloat).reshape({3, 2}));
  const at::Tensor conjugated = plain.conj();
  ASSERT_TRUE(conjugated.is_conj());
  ASSERT_TRUE(at::imag(conjugated).is_neg());
  const TorchValue written{TorchDict{{"a", {plain}},
                                     {"b", {conjugated}},
                                     {"c", {at::imag(plain)}},
                                     {"d", {at::imag(conjugated)}},
                                     {"e", {conjugated}}}};
  write_torch_file(FileSystem::system(), folder / "x.pth", written);
  const TorchValue back = read(folder / "x.pth");
  EXPECT_TRUE(at::equal(in<at::Tensor>(back, "a"), plain));
  EXPECT_TRUE(at::equal(in<at::Tensor>(back, "b"), conjugated.resolve_conj()));
  EXPECT_TRUE(at::equal(in<at::Tensor>(back, "c"), at::imag(plain)));
  EXPECT_TRUE(at::equal(in<at::Tensor>(back, "d"), at::imag(conjugated).resolve_neg()));
  EXPECT_EQ(in<at::Tensor>(back, "b").data_ptr(), in<at::Tensor>(back, "e").data_ptr());
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

namespace lockstep::checkpoint {
namespace torch_file_test {

using test::pickle_of;
using test::pickled_integer;
using test::pickled_name;
using test::pickled_tensor;
using test::pickled_text;
using ::testing::HasSubstr;

std::string refusal(const std::string& bytes) {
  const auto pickle = parse_pickle(bytes);
  return pickle ? "taken" : pickle.error();
}

std::string repeated(const std::string& bytes, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += bytes;
  return all;
}

TEST(Pickle, ReadsWhatItsWriterWrites) {
  PickleWriter writer;
  writer.begin_dict();
  writer.add_text("list");
  writer.begin_list();
  writer.add_none();
  writer.add_bool(true);
  writer.add_integer(-5);
  writer.add_integer(INT64_MIN);
  writer.add_real(0.1);
  writer.end_list();
  writer.add_integer(3);
  writer.add_tensor({0, ElementType::kBF16, 0, {2, 3}, {3, 1}}, 6);
  writer.end_dict();
  const auto pickle = parse_pickle(writer.finish());
  ASSERT_TRUE(pickle) << pickle.error();
  const PickleNode& dict = pickle->nodes[pickle->root];
  ASSERT_EQ(dict.items.size(), 4U);
  const PickleNode& list = pickle->nodes[dict.items[1]];
  ASSERT_EQ(list.items.size(), 5U);
  EXPECT_EQ(pickle->nodes[list.items[0]].kind, PickleKind::kNone);
  EXPECT_EQ(pickle->nodes[list.items[1]].kind, PickleKind::kBool);
  EXPECT_EQ(pickle->nodes[list.items[2]].integer, -5);
  EXPECT_EQ(pickle->nodes[list.items[3]].integer, INT64_MIN);
  EXPECT_EQ(pickle->nodes[list.items[4]].real, 0.1);
  ASSERT_EQ(pickle->tensors.size(), 1U);
  EXPECT_EQ(pickle->tensors[0].type, ElementType::kBF16);
  EXPECT_EQ(pickle->tensors[0].sizes, (std::vector<std::int64_t>{2, 3}));
}

TEST(Pickle, RefusesWhatWouldRunCodeAndNamesIt) {
  const std::string system = pickled_name("os", "system") + pickled_text("touch /tmp/x") + "\x85R";
  EXPECT_THAT(refusal(pickle_of(system)),
              HasSubstr("GLOBAL at byte 2: tensors and plain values do not need the name \"os.system\""));
  EXPECT_THAT(refusal(pickle_of(pickled_name("builtins", "eval"))), HasSubstr("\"builtins.eval\""));
  EXPECT_THAT(refusal(pickle_of(pickled_text("posix") + pickled_text("system") + "\x93")),
              HasSubstr("STACK_GLOBAL at byte 23: tensors and plain values do not need the name \"posix.system\""));
  EXPECT_THAT(refusal(pickle_of("(" + pickled_text("id") + "ios\nsystem\n")), HasSubstr("INST at byte 10: not among"));
  EXPECT_THAT(refusal(pickle_of(pickled_name("torch", "Size") + ")\x81")), HasSubstr("NEWOBJ at byte"));
  EXPECT_THAT(refusal(pickle_of("(" + pickled_name("torch", "Size") + "o")), HasSubstr("OBJ at byte"));
  EXPECT_THAT(refusal(pickle_of("\x82\x01")), HasSubstr("EXT1 at byte 2"));
  EXPECT_THAT(refusal(pickle_of("Pid\n")), HasSubstr("PERSID at byte 2"));
  EXPECT_THAT(refusal(pickle_of("]}b")), HasSubstr("BUILD at byte 4: it would call __setstate__"));
  EXPECT_THAT(refusal(pickle_of("}}b")), HasSubstr("BUILD at byte 4"));
  EXPECT_THAT(refusal(pickle_of(pickled_text("a") + ")R")),
              HasSubstr("REDUCE at byte 9: a call of something other than a name"));
  EXPECT_THAT(refusal(pickle_of(pickled_name("torch", "float32") + ")R")), HasSubstr("REDUCE"));
}

TEST(Pickle, AnOrderedDictMayHaveAttributesAndLosesThem) {
  const std::string dict = pickled_name("collections", "OrderedDict") + ")R";
  const auto pickle = parse_pickle(pickle_of(dict + "}" + pickled_text("_metadata") + "}sb"));
  ASSERT_TRUE(pickle) << pickle.error();
  EXPECT_TRUE(pickle->nodes[pickle->root].items.empty());
}

TEST(Pickle, RefusesPersistentIdsThatAreNoStorage) {
  const auto id = [](const std::string& parts) { return refusal(pickle_of("(" + parts + "tQ")); };
  const std::string storage = pickled_text("storage") + pickled_name("torch", "FloatStorage");
  EXPECT_THAT(id(storage), HasSubstr("BINPERSID"));
  EXPECT_THAT(id(pickled_text("module") + pickled_name("torch", "FloatStorage") + pickled_text("0") +
                 pickled_text("cpu") + pickled_integer(1)),
              HasSubstr("a persistent id that is not ('storage'"));
  EXPECT_THAT(id(storage + pickled_text("../../etc/passwd") + pickled_text("cpu") + pickled_integer(1)),
              HasSubstr("a storage with the key"));
  EXPECT_THAT(id(storage + pickled_text("0") + pickled_text("cpu") + pickled_integer(-1)), HasSubstr("persistent id"));
  EXPECT_THAT(id(storage + pickled_text("0") + pickled_text("cpu") + pickled_integer(1)),
              HasSubstr("a storage that is not a tensor"));
  EXPECT_THAT(id(pickled_text("storage") + pickled_name("torch", "Size") + pickled_text("0") + pickled_text("cpu") +
                 pickled_integer(1)),
              HasSubstr("a storage of the type torch.Size"));
}

TEST(Pickle, RefusesTensorsThatLeaveTheirStorage) {
  const auto tensor = [](const test::PickledTensor& made) { return refusal(pickle_of(pickled_tensor(made))); };
  EXPECT_EQ(tensor({}), "taken");
  EXPECT_THAT(tensor({.offset = 1}), HasSubstr("a tensor reaches to element 7 of storage '0', which has 6"));
  EXPECT_THAT(tensor({.offset = -1}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.strides = {-3, 1}}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.sizes = {2, -3}}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.sizes = {2}, .strides = {1, 1}}), HasSubstr("not counts"));
  EXPECT_THAT(tensor({.sizes = {3, 3}}), HasSubstr("reaches to element 9"));
  EXPECT_THAT(tensor({.sizes = {INT64_MAX, INT64_MAX}, .strides = {0, 0}}), HasSubstr("larger than any memory"));
  EXPECT_THAT(tensor({.sizes = {2, 2}, .strides = {INT64_MAX, INT64_MAX}}), HasSubstr("larger than any memory"));
  EXPECT_THAT(tensor({.sizes = std::vector<std::int64_t>(65, 1), .strides = std::vector<std::int64_t>(65, 1)}),
              HasSubstr("not counts"));
  EXPECT_THAT(tensor({.storage_class = "QInt8Storage"}), HasSubstr("the name \"torch.QInt8Storage\""));
  EXPECT_EQ(tensor({.offset = 6, .sizes = {0, 3}}), "taken");
  EXPECT_THAT(tensor({.offset = 7, .sizes = {0, 3}}), HasSubstr("reaches to element 7"));
}

TEST(Pickle, RefusesViewsThatConjugateOrNegateTheirStorage) {
  const auto tensor = [](const std::string& metadata) {
    return refusal(pickle_of(pickled_tensor({.metadata = metadata})));
  };
  for (const std::string bit : {"conj", "neg"}) {
    EXPECT_THAT(tensor("}" + pickled_text(bit) + "\x88s"),
                HasSubstr("a conjugated or negated view: save tensor.resolve_conj()"));
  }
  EXPECT_THAT(tensor("\x88"), HasSubstr("a conjugated or negated view"));
  EXPECT_EQ(tensor("}"), "taken");
  EXPECT_EQ(tensor("N"), "taken");
}

TEST(Pickle, RefusesOneStorageOfTwoSizes) {
  const std::string two = "(" + pickled_tensor({}) + pickled_tensor({.elements = 8}) + "t";
  EXPECT_THAT(refusal(pickle_of(two)), HasSubstr("storage '0' with two types or sizes"));
}

TEST(Pickle, RefusesValuesWithoutEnd) {
  EXPECT_THAT(refusal(pickle_of(repeated("]", 1'000'000) + repeated("a", 999'999))), HasSubstr("nested more than 64"));
  EXPECT_THAT(refusal(pickle_of("]q\1h\1a")), HasSubstr("a value that contains itself"));
  // Lists that each hold the previous one twice: 2^60 values in 400 bytes.
  std::string laughs = "]";
  for (char i = 0; i < 60; ++i) laughs += std::string("q") + i + "](h" + i + "h" + i + "e";
  EXPECT_THAT(refusal(pickle_of(laughs)), HasSubstr("the stack does not hold"));
  std::string nested = "](K\1K\1e";
  for (char i = 0; i < 60; ++i) nested += std::string("q") + i + "h" + i + "\x86";
  EXPECT_THAT(refusal(pickle_of(nested)), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(pickle_of(repeated("N", 2'000'001))), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(pickle_of(repeated("(", 2'000'001))), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(pickle_of("N" + repeated("\x94", 2'000'001))), HasSubstr("more than 2000000 values"));
}

TEST(Pickle, RefusesWrongUseOfMemoAndStack) {
  EXPECT_THAT(refusal(pickle_of("j" + test::little_endian(0x80000000, 4))),
              HasSubstr("LONG_BINGET at byte 2: nothing was stored under 2147483648"));
  EXPECT_THAT(refusal(pickle_of("")), HasSubstr("the stack does not hold exactly one value"));
  EXPECT_THAT(refusal(pickle_of("NN")), HasSubstr("exactly one value"));
  EXPECT_THAT(refusal(pickle_of("N(")), HasSubstr("exactly one value"));
  EXPECT_THAT(refusal(pickle_of("t")), HasSubstr("there is no mark"));
  EXPECT_THAT(refusal(pickle_of("e")), HasSubstr("there is no mark"));
  EXPECT_THAT(refusal(pickle_of("](\x85")), HasSubstr("the stack is empty"));
  EXPECT_THAT(refusal(pickle_of("}Na")), HasSubstr("something other than a list"));
  EXPECT_THAT(refusal(pickle_of("](NNu")), HasSubstr("something other than a dict"));
  EXPECT_THAT(refusal(pickle_of("}(Nu")), HasSubstr("a key without a value"));
  EXPECT_THAT(refusal("\x80\x02N.N"), HasSubstr("bytes follow the end"));
  EXPECT_THAT(refusal("\x80\x02N"), HasSubstr("cut short"));
  EXPECT_THAT(refusal(""), HasSubstr("cut short"));
  EXPECT_THAT(refusal(pickle_of("X" + test::little_endian(0xFFFFFFFF, 4))), HasSubstr("cut short"));
  EXPECT_THAT(refusal(pickle_of("\x8d" + test::little_endian(1ULL << 63U, 8))), HasSubstr("cut short"));
  EXPECT_THAT(refusal(std::string("\x80\0N.", 4)), HasSubstr("protocol 0"));
  EXPECT_THAT(refusal(pickle_of("\x8a\x09" + std::string(9, '\1'))), HasSubstr("an integer of 9 bytes"));
}

TEST(Pickle, RefusesKeysThatStandTwiceAndOtherKeys) {
  EXPECT_THAT(refusal(pickle_of("}(" + pickled_text("a") + "N" + pickled_text("a") + "Nu")),
              HasSubstr("key \"a\" occurs twice"));
  EXPECT_THAT(refusal(pickle_of("}(K\1NK\1Nu")), HasSubstr("key 1 occurs twice"));
  EXPECT_THAT(refusal(pickle_of("})Ns")), HasSubstr("neither a string nor an integer"));
}

}  // namespace torch_file_test

namespace zip_parse_test {

using test::little_endian;
using test::zip_of;
using ::testing::HasSubstr;

std::string refusal(const std::string& file) {
  const auto members = parse_zip(file);
  return members ? "taken" : members.error();
}

/// `file` with `bytes` written over it at `offset`.
std::string changed(std::string file, std::size_t offset, const std::string& bytes) {
  return file.replace(offset, bytes.size(), bytes);
}

std::size_t directory_of(const std::string& file) { return file.find(little_endian(kZipEntry, 4)); }

std::string deflated(const std::string& content) {
  std::string packed(compressBound(content.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// A zip file with one member that claims to unpack to `bytes` bytes, with the CRC of `content`.
std::string deflated_zip(const std::string& content, std::uint64_t bytes) {
  const std::string packed = deflated(content);
  std::string file = zip_of({{"a", packed}});
  const std::size_t entry = directory_of(file);
  for (const auto& [at, method, crc] : {std::tuple{std::size_t{0}, 8, 14}, std::tuple{entry, 10, 16}}) {
    file = changed(file, at + method, little_endian(kZipDeflated, 2));
    file = changed(file, at + crc,
                   little_endian(zip_crc(content), 4) + little_endian(packed.size(), 4) + little_endian(bytes, 4));
  }
  return file;
}

TEST(Zip, ReadsWhatItsWriterWritesWithSmallAndWideNumbers) {
  for (const std::uint64_t wide_from : {std::uint64_t{0xFFFFFFFF}, std::uint64_t{0}, std::uint64_t{100}}) {
    const std::string file = zip_of({{"a/b", "hello"}, {"c", ""}, {"d", std::string(1000, 'x')}}, wide_from);
    const auto members = parse_zip(file);
    ASSERT_TRUE(members) << members.error();
    ASSERT_EQ(members->size(), 3U);
    EXPECT_EQ((*members)[0].name, "a/b");
    EXPECT_EQ(stored_bytes(file, (*members)[0]), "hello");
    EXPECT_EQ((*members)[2].bytes, 1000U);
    for (const ZipMember& member : *members) {
      EXPECT_EQ(member.offset % 64, 0U);
      EXPECT_EQ(check_member(file, member), "");
    }
  }
}

TEST(Zip, EveryCutIsRefused) {
  const std::string file = zip_of({{"a", "hello"}, {"b", "there"}});
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NE(refusal(file.substr(0, size)), "taken") << size;
}

TEST(Zip, EveryBitThatFlipsIsNoticed) {
  const std::string file = zip_of({{"a", "hello"}});
  const std::size_t data = file.find("hello");
  const auto whole = parse_zip(file);
  ASSERT_TRUE(whole);
  for (std::size_t bit = 0; bit < 5 * 8; ++bit) {
    std::string torn = file;
    torn[data + bit / 8] = static_cast<char>(torn[data + bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(check_member(torn, (*whole)[0]), HasSubstr("CRC-32"));
  }
}

TEST(Zip, RefusesMembersThatShareBytes) {
  std::string file = zip_of({{"a", "hello"}, {"a", "there"}});
  EXPECT_THAT(refusal(file), HasSubstr("'a' occurs twice"));
  // Both entries of the directory point to one header, as in a zip bomb of overlapping files.
  file = zip_of({{"a", "hello"}, {"b", "hello"}});
  const std::size_t second = file.find(little_endian(kZipEntry, 4), directory_of(file) + 4);
  file = changed(file, second + 42, little_endian(0, 4));
  EXPECT_THAT(refusal(file), HasSubstr("the header of 'b' and the directory disagree"));
  // The first member claims to reach into the second.
  file = zip_of({{"a", "hello"}, {"b", std::string(200, 'x')}});
  const std::size_t entry = directory_of(file);
  for (const std::size_t at : {entry + 20, std::size_t{18}}) {
    file = changed(file, at, little_endian(100, 4) + little_endian(100, 4));
  }
  EXPECT_THAT(refusal(file), HasSubstr("'a' and 'b' overlap"));
}

TEST(Zip, RefusesSizesThatTheFileDoesNotHave) {
  const std::string file = zip_of({{"a", "hello"}});
  const std::size_t entry = directory_of(file);
  EXPECT_THAT(refusal(changed(file, entry + 24, little_endian(6, 4))),
              HasSubstr("not compressed and has 5 bytes instead of 6"));
  std::string large = changed(file, entry + 20, little_endian(0x7FFFFFFF, 4) + little_endian(0x7FFFFFFF, 4));
  EXPECT_THAT(refusal(large), HasSubstr("'a' has 2147483647 bytes from byte 64, but the directory is at"));
  EXPECT_THAT(refusal(changed(file, entry + 42, little_endian(0xFFFFFFF0, 4))), HasSubstr("is not at byte"));
  EXPECT_THAT(refusal(changed(file, entry + 24, little_endian(0xFFFFFFFF, 4))), HasSubstr("lacks its 64-bit sizes"));
}

TEST(Zip, RefusesNamesThatLeaveTheFolder) {
  for (const std::string name : {"/etc/passwd", "../x", "a/../../x", "a\\b", ""}) {
    EXPECT_THAT(refusal(zip_of({{name, "x"}})), HasSubstr("a member has the invalid name")) << name;
  }
  EXPECT_EQ(refusal(zip_of({{"a..b/...", "x"}})), "taken");
}

TEST(Zip, RefusesEncryptedMembersAndOtherMethods) {
  const std::string file = zip_of({{"a", "hello"}});
  const std::size_t entry = directory_of(file);
  EXPECT_THAT(refusal(changed(file, entry + 8, little_endian(1, 2))), HasSubstr("encrypted"));
  EXPECT_THAT(refusal(changed(file, entry + 10, little_endian(12, 2))), HasSubstr("compressed by method 12"));
}

TEST(Zip, RefusesADirectoryThatHoldsMoreOrLess) {
  const std::string file = zip_of({{"a", "hello"}, {"b", "there"}});
  const std::size_t end = file.size() - kZipEndBytes;
  EXPECT_THAT(refusal(changed(file, end + 8, little_endian(1, 2) + little_endian(1, 2))),
              HasSubstr("extra bytes after its members"));
  EXPECT_THAT(refusal(changed(file, end + 8, little_endian(3, 2) + little_endian(3, 2))), HasSubstr("lacks"));
  EXPECT_THAT(refusal(changed(file, end + 8, little_endian(60000, 2) + little_endian(60000, 2))), HasSubstr("lacks"));
  EXPECT_THAT(refusal("prefix" + file), HasSubstr("its directory is at byte"));
  EXPECT_THAT(refusal(file + "x"), HasSubstr("no end record"));
}

TEST(Zip, UnpacksWhatIsDeflated) {
  const std::string content(100'000, 'y');
  const std::string file = deflated_zip(content, content.size());
  const auto members = parse_zip(file);
  ASSERT_TRUE(members) << members.error();
  EXPECT_EQ(check_member(file, (*members)[0]), "");
  const auto unpacked = inflate_member(file, (*members)[0], content.size());
  ASSERT_TRUE(unpacked) << unpacked.error();
  EXPECT_EQ(*unpacked, content);
}

TEST(Zip, ABombIsRefusedBeforeItGrows) {
  const std::string content(10'000'000, '\0');
  const std::string honest = deflated_zip(content, content.size());
  const auto members = parse_zip(honest);
  ASSERT_TRUE(members) << members.error();
  const auto small = inflate_member(honest, (*members)[0], 1'000'000);
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error(), HasSubstr("more than the limit of 1000000"));

  const std::string liar = deflated_zip(content, 1000);  // claims to be small
  const auto lying = parse_zip(liar);
  ASSERT_TRUE(lying) << lying.error();
  EXPECT_THAT(check_member(liar, (*lying)[0]), HasSubstr("unpacks to more than the 1000 bytes"));
  EXPECT_FALSE(inflate_member(liar, (*lying)[0], 1'000'000));
  EXPECT_THAT(refusal(deflated_zip("x", 0xFFFFFFFE)), HasSubstr("more than deflate can"));
}

}  // namespace zip_parse_test
}  // namespace lockstep::checkpoint
