// SPDX-License-Identifier: Apache-2.0
// ONNX files without a runtime: which tensors have 16 bits, and which arguments no operator of ONNX can express.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/full.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/onnx.h"
#include "support/fault_of.h"

namespace lockstep::nn {
namespace onnx_files_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = std::vector<at::Tensor>;
using Run = std::function<at::Tensor(const at::Tensor&)>;

NetworkFunction one(const Run& run) {
  return {.inputs = {"x"},
          .outputs = {"y"},
          .example =
              [](std::int64_t batch) {
                return Tensors{at::rand({batch, 4})};
              },
          .run = [run](const Tensors& in) { return Tensors{run(in[0])}; }};
}

/// A buffer that belongs to the state dict, and a table that does not.
struct Tables : torch::nn::Module {
  explicit Tables(const at::Tensor& values)
      : buffer(register_buffer("buffer", values.clone())), table(values.clone()) {}

  at::Tensor buffer;
  at::Tensor table;
};

NetworkFunction sum_of(const Tables& tables) {
  return one([&tables](const at::Tensor& x) { return x.narrow(1, 0, 1) + tables.buffer + tables.table; });
}

std::string bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

TEST(OnnxFiles, OnlyTensorsThatWereRoundedBeforeTheComparisonHave16Bits) {
  const at::Tensor values = at::arange(1000, at::kFloat) * 0.1;
  Tables tables(values);
  tables.eval();
  const OnnxFile file = to_onnx(tables, sum_of(tables), {.half = true});
  EXPECT_TRUE(tables.buffer.equal(values.to(at::kHalf).to(at::kFloat))) << "the network itself is rounded";
  EXPECT_THAT(file.model, AllOf(HasSubstr(bytes_of(values.to(at::kHalf))), HasSubstr("buffer.half")));
  EXPECT_THAT(file.model, HasSubstr(bytes_of(values))) << "the table keeps its 32 bits";
}

TEST(OnnxFiles, ATableThat16BitsHoldExactlyHasThem) {
  const at::Tensor values = at::arange(1000, at::kFloat);
  Tables tables(values);
  tables.eval();
  const OnnxFile file = to_onnx(tables, sum_of(tables), {.half = true});
  EXPECT_THAT(file.model, Not(HasSubstr(bytes_of(values))));
}

TEST(OnnxFiles, AFiniteWeightBeyond16BitsIsAnErrorThatNamesIt) {
  const at::Tensor values = at::full({1000}, 0.1F);
  values[7] = -1e5;
  Tables tables(values);
  tables.eval();
  const std::string said = test::fault_of<UsageError>([&] { (void)to_onnx(tables, sum_of(tables), {.half = true}); });
  EXPECT_THAT(said, AllOf(HasSubstr("buffer has the value -100000"), HasSubstr("at most 65504"), HasSubstr("--fp16")));
  EXPECT_TRUE(tables.buffer.equal(values)) << "no weight is rounded";
}

TEST(OnnxFiles, ASmallTensorKeepsAValueBeyond16Bits) {
  const at::Tensor values = at::tensor({1e5F, 0.1F, 0.0F, 1.0F});
  Tables tables(values);
  tables.eval();
  EXPECT_THAT(to_onnx(tables, sum_of(tables), {.half = true}).model, HasSubstr(bytes_of(values)));
  EXPECT_TRUE(tables.buffer.equal(values));
}

void expect_refusal(const std::string& op, const std::string& why, const Run& run) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4));
  net->eval();
  const std::string said = test::fault_of<UsageError>(
      [&] { (void)to_onnx(*net, one([&](const at::Tensor& x) { return run(net->forward(x)); })); });
  EXPECT_THAT(said, AllOf(HasSubstr("the operator " + op + ", after 0."), HasSubstr(why))) << op;
}

TEST(OnnxFiles, ArgumentsThatNoRowWritesAreRefused) {
  const auto places = [](const at::Tensor& x) { return (x > 0).to(at::kLong); };
  expect_refusal("scatter", "it combines values (reduce)",
                 [&](const at::Tensor& x) { return x.scatter(1, places(x), x, "add"); });
  expect_refusal("scatter", "it combines values (reduce)",
                 [&](const at::Tensor& x) { return x.scatter(1, places(x), 2.0, "multiply"); });
  expect_refusal("round", "it rounds to a number of decimals", [](const at::Tensor& x) { return x.round(2); });
  expect_refusal("roll", "it flattens all dimensions", [](const at::Tensor& x) { return at::roll(x, {1}); });
  expect_refusal("elu", "it scales its input (input_scale)", [](const at::Tensor& x) { return at::elu(x, 1, 1, 2); });
  expect_refusal("softplus", "its threshold is below 15", [](const at::Tensor& x) { return at::softplus(x, 1, 2); });
  expect_refusal("norm", "it changes the type (dtype)",
                 [](const at::Tensor& x) { return x + at::norm(x, 2, at::kDouble); });
  expect_refusal("argmax", "it keeps the dimensions of a single position",
                 [](const at::Tensor& x) { return x + at::argmax(x, c10::nullopt, true); });
}

TEST(OnnxFiles, AViewAsAnotherTypeIsRefused) {
  try {
    expect_refusal("view", "it reads the bytes as another type", [](const at::Tensor& x) { return x.view(at::kInt); });
  } catch (const c10::Error& error) {  // libtorch 2.6
    EXPECT_THAT(error.what(), HasSubstr("We don't have an op for aten::view"));
    GTEST_SKIP() << "this libtorch cannot trace it";
  }
}

}  // namespace onnx_files_test
}  // namespace lockstep::nn
