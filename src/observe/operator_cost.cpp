// SPDX-License-Identifier: Apache-2.0
#include "observe/operator_cost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lockstep::observe {
namespace {

constexpr std::string_view kCustom = "torch::autograd::CppNode<";

using Inputs = c10::ArrayRef<const c10::IValue>;

bool has_tensor(Inputs inputs, std::size_t at, std::int64_t least_dim = 1) {
  return at < inputs.size() && inputs[at].isTensor() && inputs[at].toTensor().defined() &&
         inputs[at].toTensor().dim() >= least_dim;
}

double numel(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// Returns the number of operations in the product of [.., n, k] and [.., k, m].
double product(Inputs inputs, std::size_t left, std::size_t right) {
  if (!has_tensor(inputs, left) || !has_tensor(inputs, right)) return 0;
  const at::Tensor& other = inputs[right].toTensor();
  return 2 * numel(inputs[left].toTensor()) * static_cast<double>(other.dim() > 1 ? other.size(-1) : 1);
}

double mm(Inputs inputs) { return product(inputs, 0, 1); }
double addmm(Inputs inputs) { return product(inputs, 1, 2); }

/// Returns the number for a dimension of the image; a list with one number applies to all dimensions.
std::int64_t one_of(const std::vector<std::int64_t>& list, std::size_t dimension) {
  return list.empty() ? 1 : list[std::min(dimension, list.size() - 1)];
}

struct Window {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
};

/// Returns the number of multiplications in a convolution of `input` with [out, in / groups, kernel...]. There is one
/// for each output and weight of its filter; in a transposed convolution, one for each input and weight.
double convolution_products(const at::Tensor& input, const at::Tensor& weight, const Window& window, bool transposed) {
  const double by_filter = numel(weight) / static_cast<double>(weight.size(0));
  if (transposed) return numel(input) * by_filter;
  double outputs = static_cast<double>(input.size(0)) * static_cast<double>(weight.size(0));
  for (std::int64_t i = 2; i < input.dim(); ++i) {
    const auto at = static_cast<std::size_t>(i - 2);
    const std::int64_t reach = one_of(window.dilation, at) * (weight.size(i) - 1) + 1;
    const std::int64_t free = input.size(i) + 2 * (window.padding.empty() ? 0 : one_of(window.padding, at)) - reach;
    outputs *= static_cast<double>(free / one_of(window.stride, at) + 1);
  }
  return outputs * by_filter;
}

bool are_numbers(Inputs inputs, std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (i >= inputs.size() || !inputs[i].isIntList()) return false;
  }
  return true;
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, ...)
double convolution(Inputs inputs) {
  if (!has_tensor(inputs, 0, 3) || !has_tensor(inputs, 1, 3) || !are_numbers(inputs, 3, 3)) return 0;
  const bool transposed = inputs.size() > 6 && inputs[6].isBool() && inputs[6].toBool();
  return 2 * convolution_products(inputs[0].toTensor(), inputs[1].toTensor(),
                                  {inputs[3].toIntVector(), inputs[4].toIntVector(), inputs[5].toIntVector()},
                                  transposed);
}

double gradients_wanted(const c10::IValue& mask) {
  double wanted = 0;
  if (mask.isBoolList()) {
    const auto list = mask.toBoolList();
    for (std::size_t i = 0; i < std::min<std::size_t>(2, list.size()); ++i) wanted += list[i] ? 1 : 0;
  }
  return wanted;
}

/// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// mask): the gradients of input and weight each need as many products as the forward.
double convolution_backward(Inputs inputs) {
  if (inputs.size() < 11 || !has_tensor(inputs, 1, 3) || !has_tensor(inputs, 2, 3) || !are_numbers(inputs, 4, 3)) {
    return 0;
  }
  const double products = convolution_products(
      inputs[1].toTensor(), inputs[2].toTensor(),
      {inputs[4].toIntVector(), inputs[5].toIntVector(), inputs[6].toIntVector()}, inputs[7].toBool());
  return 2 * products * gradients_wanted(inputs[10]);
}

/// Lockstep's operator (input, weight): 3x3, padding 1, stride 1, so there is an output for each pixel.
double same_convolution(Inputs inputs) {
  if (!has_tensor(inputs, 0, 4) || !has_tensor(inputs, 1, 4)) return 0;
  const at::Tensor& input = inputs[0].toTensor();
  return 2 * numel(input) / static_cast<double>(input.size(1)) * numel(inputs[1].toTensor());
}

/// Lockstep's operator (input, weight, number of gradients to compute).
double same_convolution_backward(Inputs inputs) {
  if (inputs.size() < 3 || !inputs[2].isInt()) return 0;
  return same_convolution(inputs) * static_cast<double>(inputs[2].toInt());
}

/// Lockstep's operator (input, weight, [stride, padding and dilation of rows and columns]).
double shaped_convolution(Inputs inputs) {
  if (!has_tensor(inputs, 0, 4) || !has_tensor(inputs, 1, 4) || !are_numbers(inputs, 2, 1)) return 0;
  const std::vector<std::int64_t> numbers = inputs[2].toIntVector();
  if (numbers.size() != 6) return 0;
  return 2 * convolution_products(inputs[0].toTensor(), inputs[1].toTensor(),
                                  {{numbers[0], numbers[1]}, {numbers[2], numbers[3]}, {numbers[4], numbers[5]}},
                                  /*transposed=*/false);
}

/// Lockstep's operator with the inputs of shaped_convolution() and the number of gradients to compute.
double shaped_convolution_backward(Inputs inputs) {
  if (inputs.size() < 4 || !inputs[3].isInt()) return 0;
  return shaped_convolution(inputs) * static_cast<double>(inputs[3].toInt());
}

/// Lockstep's operator (rows, weight [out, in]).
double linear(Inputs inputs) {
  if (!has_tensor(inputs, 0) || !has_tensor(inputs, 1, 2)) return 0;
  return 2 * numel(inputs[0].toTensor()) * static_cast<double>(inputs[1].toTensor().size(0));
}

/// Lockstep's operator (rows, weight, number of gradients to compute).
double linear_backward(Inputs inputs) {
  if (inputs.size() < 3 || !inputs[2].isInt()) return 0;
  return linear(inputs) * static_cast<double>(inputs[2].toInt());
}

/// Lockstep's operator (query, key) [B, H, ., d]: two products, and in backward the four products of their gradients.
double attention(Inputs inputs) {
  if (!has_tensor(inputs, 0, 4) || !has_tensor(inputs, 1, 4)) return 0;
  return 4 * numel(inputs[0].toTensor()) * static_cast<double>(inputs[1].toTensor().size(2));
}
double attention_backward(Inputs inputs) { return 2 * attention(inputs); }

using Rule = double (*)(Inputs);

/// The operators that compute, without their callers, so that each operation counts once. If one of these operators
/// calls another of them, only the outermost counts.
const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"aten::mm", mm},
      {"aten::bmm", mm},
      {"aten::mv", mm},
      {"aten::dot", mm},
      {"aten::addmm", addmm},
      {"aten::addmm_", addmm},
      {"aten::baddbmm", addmm},
      {"aten::baddbmm_", addmm},
      {"aten::addmv", addmm},
      {"aten::convolution", convolution},
      {"aten::_convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"lockstep::thin_convolution", same_convolution},
      {"lockstep::thin_convolution_backward", same_convolution_backward},
      {"lockstep::winograd_convolution", same_convolution},
      {"lockstep::winograd_convolution_backward", same_convolution_backward},
      {"lockstep::direct_convolution", shaped_convolution},
      {"lockstep::direct_convolution_backward", shaped_convolution_backward},
      {"lockstep::depthwise_convolution", shaped_convolution},
      {"lockstep::depthwise_convolution_backward", shaped_convolution_backward},
      {"lockstep::linear", linear},
      {"lockstep::linear_relu", linear},
      {"lockstep::linear_backward", linear_backward},
      {"lockstep::attention", attention},
      {"lockstep::attention_backward", attention_backward},
  };
  return rules;
}

const std::unordered_set<std::string_view>& movers() {
  static const std::unordered_set<std::string_view> names = {
      "aten::add",
      "aten::add_",
      "aten::sub",
      "aten::sub_",
      "aten::mul",
      "aten::mul_",
      "aten::div",
      "aten::div_",
      "aten::copy_",
      "aten::relu",
      "aten::relu_",
      "aten::threshold_backward",
      "aten::cat",
      "aten::sum",
      "aten::sigmoid",
      "aten::tanh",
      "aten::silu",
      "aten::leaky_relu",
      "aten::addcmul_",
      "aten::addcdiv_",
      "aten::lerp_",
      "aten::where",
      "aten::max_pool2d_with_indices",
  };
  return names;
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

/// Returns the bytes of an operator's inputs; for copy_ only of the second input.
std::int64_t bytes_read(std::string_view name, Inputs inputs) {
  std::int64_t sum = 0;
  for (const c10::IValue& input : inputs.slice(name == "aten::copy_" && !inputs.empty() ? 1 : 0)) {
    if (input.isTensor()) sum += bytes_of(input.toTensor());
    if (!input.isTensorList()) continue;
    for (const at::Tensor& tensor : input.toTensorVector()) sum += bytes_of(tensor);
  }
  return sum;
}

std::string element_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    case at::kDouble:
      return "float64";
    default:
      return c10::toString(type);
  }
}

view::CallInput input_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const bool is_images = tensor.dim() == 4 && tensor.layout() == at::kStrided;
  return {.type = element_name(tensor.scalar_type()),
          .sizes = tensor.sizes().vec(),
          .channels_last = is_images && tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast};
}

}  // namespace

bool is_engine(std::string_view name) { return name.starts_with("autograd::engine::"); }

std::string short_name(std::string_view name, view::CallKind kind) {
  if (kind == view::CallKind::kEngine) return "autograd engine";
  if (kind != view::CallKind::kBackwardNode) return std::string(name);
  if (!name.starts_with(kCustom)) {
    const std::size_t scope = name.rfind("::");
    return std::string(scope == std::string_view::npos ? name : name.substr(scope + 2));
  }
  std::string_view type = name.substr(kCustom.size());
  if (type.ends_with('>')) type.remove_suffix(1);
  const bool is_ours = type.starts_with("lockstep::");
  const std::size_t scope = type.find('<') == std::string_view::npos ? type.rfind("::") : std::string_view::npos;
  const std::string_view last = scope == std::string_view::npos ? type : type.substr(scope + 2);
  return (is_ours ? "lockstep::" : "") + std::string(last) + " backward";
}

std::vector<view::CallInput> inputs_of(Inputs inputs) {
  std::vector<view::CallInput> found;
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) {
      found.push_back(input_of(input.toTensor()));
    } else if (input.isTensorList() && !input.toTensorVector().empty()) {
      found.push_back(input_of(input.toTensorVector().front()));
    } else if (input.isIntList()) {
      found.push_back({.type = "numbers", .sizes = input.toIntVector()});
    } else if (input.isInt()) {
      found.push_back({.type = "numbers", .sizes = {input.toInt()}});
    } else {
      found.emplace_back();
    }
  }
  return found;
}

OperatorCost operator_cost(std::string_view name, Inputs inputs) {
  OperatorCost cost;
  if (const auto rule = rules().find(name); rule != rules().end()) cost.flops = rule->second(inputs);
  if (movers().contains(name)) cost.bytes = bytes_read(name, inputs);
  return cost;
}

}  // namespace lockstep::observe
