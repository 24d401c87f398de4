// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/torchscript.h"

#include <fmt/format.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <locale>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "nn/script/script_module.h"
#include "nn/script/traced_graph.h"
#include "nn/script/tracing.h"

namespace lockstep::nn {
namespace {

/// Batch sizes for which the archive is compared with the function; neither was traced.
constexpr std::int64_t kTried[] = {1, 5};
/// The archive and the function run the same operators, so any difference beyond rounding is a bug.
constexpr double kTolerance = 1e-5;

/// Turns the fuser off. On the second call a libtorch built with LLVM would compile the recorded graph, which takes
/// minutes for a network of thousands of operators. The interpreter is enough to compare results.
class NoFuser {
 public:
  NoFuser() { torch::jit::setTensorExprFuserEnabled(false); }
  ~NoFuser() { torch::jit::setTensorExprFuserEnabled(was_enabled_); }
  NoFuser(const NoFuser&) = delete;
  NoFuser& operator=(const NoFuser&) = delete;

 private:
  bool was_enabled_ = torch::jit::tensorExprFuserEnabled();
};

std::vector<at::Tensor> results_of(torch::jit::Module& module, const std::vector<at::Tensor>& arguments) {
  const c10::IValue result = module.forward(std::vector<c10::IValue>(arguments.begin(), arguments.end()));
  if (result.isTensor()) return {result.toTensor()};
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& one : result.toTupleRef().elements()) tensors.push_back(one.toTensor());
  return tensors;
}

void check_results(const NetworkFunction& function, const std::vector<at::Tensor>& wanted,
                   const std::vector<at::Tensor>& found) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i < found.size() && wanted[i].sizes() == found[i].sizes() &&
        wanted[i].scalar_type() == found[i].scalar_type() &&
        wanted[i].allclose(found[i], kTolerance, kTolerance, /*equal_nan=*/true)) {
      continue;
    }
    throw UsageError(
        fmt::format("output \"{}\" of the traced network differs from that of the network itself for other arguments",
                    function.outputs[i]),
        "forward() may read tensor values, which a tracer records as constants");
  }
}

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kLong:
      return "int64";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

/// Returns {"name": "images", "shape": [null, 3, 320, 320], "dtype": "float32"} of each, in square brackets.
std::string described(const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> shape = {"null"};
    for (const std::int64_t size : tensors.at(i).sizes().slice(1)) shape.push_back(fmt::format("{}", size));
    all.push_back(fmt::format(R"({{"name": {}, "shape": [{}], "dtype": "{}"}})", text::json_quote(names[i]),
                              text::join(shape), dtype_name(tensors[i].scalar_type())));
  }
  return fmt::format("[{}]", text::join(all));
}

}  // namespace

Tracing::Tracing(torch::nn::Module& model)
    // libtorch writes the numbers in the code with streams, which follow the process's locale: "0,5", "1.024".
    : before_(std::locale::global(std::locale(std::locale(), new std::numpunct<char>))) {
  if (model.is_training()) throw UsageError("a network in training mode cannot be traced", "call model.eval()");
  // A tracer does not accept tensors that require a gradient.
  for (const at::Tensor& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    frozen_.push_back(parameter);
    frozen_.back().requires_grad_(false);
  }
}

Tracing::~Tracing() {
  for (const at::Tensor& parameter : frozen_) parameter.requires_grad_(true);
  std::locale::global(before_);
}

std::string describe(const NetworkFunction& function, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results) {
  std::vector<std::string> names;
  for (const std::string& name : function.names) names.push_back(text::json_quote(name));
  return fmt::format("{{\"inputs\": {}, \"outputs\": {}, \"names\": [{}]}}\n", described(function.inputs, arguments),
                     described(function.outputs, results), text::join(names));
}

void require_same_results(torch::jit::Module& module, const NetworkFunction& function) {
  const NoFuser interpreted;
  for (const std::int64_t batch : kTried) {
    const std::vector<at::Tensor> arguments = function.example(batch);
    check_results(function, function.run(arguments), results_of(module, arguments));
  }
}

std::string to_torchscript(torch::nn::Module& model, const NetworkFunction& function,
                           const std::map<std::string, std::string>& texts) {
  const Tracing tracing(model);
  // A network may build tables on its first call and keep them. This call builds them, so that they are recorded as
  // constants.
  const std::vector<at::Tensor> arguments = function.example(1);
  torch::jit::ExtraFilesMap files(texts.begin(), texts.end());
  files["network.json"] = describe(function, arguments, function.run(arguments));
  const torch::jit::Module module = script_module(model, traced_graph(function));
  std::ostringstream archive;
  module.save(archive, files);
  std::istringstream stream(archive.str());
  torch::jit::Module loaded = torch::jit::load(stream);
  require_same_results(loaded, function);
  return archive.str();
}

}  // namespace lockstep::nn
