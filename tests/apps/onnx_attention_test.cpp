// SPDX-License-Identifier: Apache-2.0
// Attention as a single operator of libtorch 2.0 and later, exported to ONNX. For older versions this file declares the
// operator.
#include <gmock/gmock.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>
#include <torch/nn.h>

#include <cmath>
#include <fstream>

#include "lockstep/nn/onnx.h"
#include "support/temp_dir.h"
#include "worker/onnx/onnx_parity.h"

namespace lockstep::worker {
namespace onnx_attention_test {

using ::testing::HasSubstr;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr const char* kName = "aten::scaled_dot_product_attention";
constexpr const char* kSchema =
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor";

/// As defined in libtorch's documentation.
void attend(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::pop(*stack, 8);
  const Tensor query = arguments[0].toTensor(), key = arguments[1].toTensor();
  const double scale =
      arguments[6].isNone() ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : arguments[6].toDouble();
  Tensor scores = query.matmul(key.transpose(-2, -1)) * scale;
  if (arguments[5].toBool()) scores = scores + torch::full({query.size(-2), key.size(-2)}, -INFINITY).triu(1);
  if (!arguments[3].isNone()) {
    const Tensor mask = arguments[3].toTensor();
    scores = mask.dtype() == torch::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY) : scores + mask;
  }
  stack->emplace_back(scores.softmax(-1).matmul(arguments[2].toTensor()));
}

const std::shared_ptr<torch::jit::Operator>& attention() {
  static torch::Library library(torch::Library::FRAGMENT, "aten", c10::nullopt, __FILE__, __LINE__);
  if (!c10::Dispatcher::singleton().findSchema({kName, ""}))
    library.def(kSchema, torch::CppFunction::makeFromBoxedFunction<&attend>());
  return torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(kName)).at(0);
}

/// `options` holds the mask, whether the attention is causal, and the scale.
Tensor attention_of(const Tensor& query, const Tensor& key, const std::vector<c10::IValue>& options) {
  const auto& op = attention();
  torch::jit::Stack stack = {query, key, key + 1, options[0], 0.0, options[1], options[2], false};
  stack.resize(std::min(stack.size(), op->schema().arguments().size()));
  op->getOperation()(stack);
  return stack.at(0).toTensor();
}

/// [N, 6, 8] as [N, 2, 6, 4].
Tensor heads(const Tensor& x) { return x.view({-1, 6, 2, 4}).transpose(1, 2); }

nn::NetworkFunction function() {
  return {.inputs = {"vectors"},
          .outputs = {"plain", "by_parts", "where", "backwards"},
          .example = [](std::int64_t batch) -> Tensors {
            return {torch::randn({batch, 6, 8})};
          },
          .run = [](const Tensors& in) -> Tensors {
            const Tensor x = heads(in[0]);
            const Tensor products = in[0].matmul(in[0].transpose(1, 2)).unsqueeze(1);
            return {attention_of(x, x.flip({2}), {{}, false, {}}), attention_of(x, x, {products, false, 0.3}),
                    attention_of(x, x, {products > 0, false, {}}),
                    attention_of(x, torch::cat({x, x}, 2), {{}, true, {}})};
          }};
}

TEST(OnnxAttention, OfOneOperatorIsWrittenAsProductsAndComputesTheSame) {
  const auto runtime = find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  torch::nn::Identity none;
  none->eval();
  const test::TempDir folder;
  std::ofstream(folder / "model.onnx", std::ios::binary) << nn::to_onnx(*none, function()).model;
  EXPECT_THAT(compare_onnx(*runtime, folder / "model.onnx", function()), HasSubstr("where: differs by at most"));
}

}  // namespace onnx_attention_test
}  // namespace lockstep::worker
