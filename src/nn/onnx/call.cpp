// SPDX-License-Identifier: Apache-2.0
#include "nn/onnx/call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {
namespace {

using torch::jit::Value;
namespace prim = torch::jit::prim;

const c10::TensorType* tensor_type(const Value* value) {
  return value->type()->kind() == c10::TypeKind::TensorType ? value->type()->castRaw<c10::TensorType>() : nullptr;
}

std::vector<std::int64_t> sizes_of(const Value* value) {
  if (const auto constant = onnx_constant(value); constant && constant->isTensor())
    return constant->toTensor().sizes().vec();
  const auto* type = tensor_type(value);
  const auto sizes = type == nullptr ? c10::nullopt : type->sizes().concrete_sizes();
  if (!sizes) return {};
  return *sizes;
}

/// Returns a value's type. Plain numbers have the types that PyTorch's type promotion gives to Python numbers.
at::ScalarType type_of(const Value* value) {
  if (const auto constant = onnx_constant(value)) {
    if (constant->isTensor()) return constant->toTensor().scalar_type();
    if (constant->isDouble()) return at::kDouble;
    if (constant->isBool()) return at::kBool;
    return at::kLong;
  }
  const auto* type = tensor_type(value);
  return type == nullptr || !type->scalarType() ? at::kLong : *type->scalarType();
}

/// True for a number or a tensor without dimensions: neither widens the type of a tensor that has dimensions.
bool is_number(const Value* value) { return tensor_type(value) == nullptr || sizes_of(value).empty(); }

}  // namespace

std::optional<c10::IValue> onnx_constant(const Value* value) {
  const torch::jit::Node* node = value->node();
  if (node->kind() == prim::Constant) {
    const auto found = torch::jit::toIValue(value);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (node->kind() != prim::ListConstruct) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Value* each : node->inputs()) {
    const auto number = onnx_constant(each);
    if (!number || !number->isInt()) return std::nullopt;
    numbers.push_back(number->toInt());
  }
  return c10::IValue(numbers);
}

// Values --------------------------------------------------------------------------------------------------------------

const std::string& OnnxValues::store(const Value* value, const at::Tensor& tensor) {
  const auto [known, is_new] = stored_.try_emplace({tensor.data_ptr(), tensor.sizes().vec()});
  if (is_new) {
    const auto name = names_.find(tensor.data_ptr());
    const bool has_name = name != names_.end();
    known->second = model_.store(tensor, has_name ? name->second : "");
    if (has_name) {
      last_name_ = name->second;
      names_.erase(name);  // each name is used only once
    }
  }
  return tensors_[value] = known->second;
}

const std::string& OnnxValues::tensor(const Value* value) {
  const auto found = tensors_.find(value);
  if (found != tensors_.end()) return found->second;
  const auto constant = onnx_constant(value);
  if (constant && constant->isTensor()) return store(value, constant->toTensor());
  if (constant && constant->isInt()) return tensors_[value] = model_.store_integers({constant->toInt()});
  throw InternalError(fmt::format("the graph's value %{} has no ONNX equivalent", value->debugName()));
}

std::vector<std::string> OnnxValues::list(const Value* value) {
  const auto found = lists_.find(value);
  if (found != lists_.end()) return found->second;
  std::vector<std::string> names;
  for (const Value* each : value->node()->inputs()) {
    names.push_back(each->type()->kind() == c10::TypeKind::NoneType ? "" : tensor(each));
  }
  return names;
}

// Arguments -----------------------------------------------------------------------------------------------------------

bool OnnxTensors::none(std::size_t i) const {
  return i >= count() || node_.input(i)->type()->kind() == c10::TypeKind::NoneType;
}

std::string OnnxTensors::as(std::size_t i, at::ScalarType wanted) const {
  const auto constant = onnx_constant(node_.input(i));
  if (constant && !constant->isTensor()) {
    return this->constant(
        constant->isBool() ? static_cast<double>(constant->toBool()) : constant->toScalar().toDouble(), wanted);
  }
  return type(i) == wanted ? in(i) : cast(in(i), wanted);
}

std::vector<std::int64_t> OnnxTensors::sizes(std::size_t i) const { return sizes_of(node_.input(i)); }
at::ScalarType OnnxTensors::type(std::size_t i) const { return type_of(node_.input(i)); }

std::vector<at::ScalarType> OnnxTensors::kinds(std::size_t i) const {
  std::vector<at::ScalarType> all;
  for (const Value* each : node_.input(i)->node()->inputs()) {
    const bool is_none = each->type()->kind() == c10::TypeKind::NoneType;
    all.push_back(is_none ? at::ScalarType::Undefined : type_of(each));
  }
  return all;
}

std::size_t OnnxTensors::list_size(std::size_t i) const {
  const torch::jit::Node* source = node_.input(i)->node();
  return source->kind() == prim::ListConstruct ? source->inputs().size() : 0;
}

at::ScalarType OnnxTensors::common_type(std::size_t i, std::size_t j) const {
  const Value* one = node_.input(i);
  const Value* other = node_.input(j);
  if (is_number(one) == is_number(other)) return c10::promoteTypes(type_of(one), type_of(other));
  const Value* tensor = is_number(one) ? other : one;
  const at::ScalarType number = type_of(is_number(one) ? one : other);
  const bool widens = c10::isFloatingType(number) && !c10::isFloatingType(type_of(tensor));
  return widens ? at::kFloat : type_of(tensor);
}

std::optional<std::int64_t> OnnxConstants::maybe_integer(std::size_t i) const {
  const auto constant = onnx_constant(node_.input(i));
  return constant && constant->isInt() ? std::optional(constant->toInt()) : std::nullopt;
}

std::int64_t OnnxConstants::integer(std::size_t i) const {
  const auto constant = onnx_constant(node_.input(i));
  if (!constant || !constant->isInt()) refuse(fmt::format("its argument {} depends on the batch size", i + 1));
  return constant->toInt();
}

std::vector<std::int64_t> OnnxConstants::integers(std::size_t i) const {
  const auto constant = onnx_constant(node_.input(i));
  if (constant && constant->isIntList()) return constant->toIntVector();
  return {integer(i)};
}

double OnnxConstants::number(std::size_t i) const {
  const auto constant = onnx_constant(node_.input(i));
  if (!constant || !constant->isScalar()) refuse(fmt::format("its argument {} is not a constant number", i + 1));
  return constant->toScalar().toDouble();
}

bool OnnxConstants::flag(std::size_t i) const {
  const auto constant = onnx_constant(node_.input(i));
  if (!constant) refuse(fmt::format("its argument {} is not a constant", i + 1));
  return constant->isBool() ? constant->toBool() : constant->toInt() != 0;
}

std::string OnnxConstants::text(std::size_t i) const {
  const auto constant = onnx_constant(node_.input(i));
  if (!constant || !constant->isString()) refuse(fmt::format("its argument {} is not a constant string", i + 1));
  return constant->toStringRef();
}

std::int64_t OnnxConstants::dim(std::size_t i, std::size_t argument) const {
  const std::int64_t given = integer(i);
  return given < 0 ? given + rank(argument) : given;
}

std::vector<std::int64_t> OnnxConstants::dims(std::size_t i, std::size_t argument) const {
  std::vector<std::int64_t> all = integers(i);
  for (std::int64_t& each : all) each += each < 0 ? rank(argument) : 0;
  return all;
}

std::string OnnxConstants::shape(std::size_t i, std::int64_t from, std::int64_t to) const {
  const Value* value = node_.input(i);
  const auto replaced = [&](std::int64_t number) { return number == from ? to : number; };
  if (const auto constant = onnx_constant(value)) {
    std::vector<std::int64_t> numbers = constant->isInt() ? std::vector{constant->toInt()} : constant->toIntVector();
    std::transform(numbers.begin(), numbers.end(), numbers.begin(), replaced);
    return values_.model().store_integers(numbers);
  }
  if (value->node()->kind() != prim::ListConstruct) return values_.tensor(value);
  std::vector<std::string> parts;
  for (const Value* each : value->node()->inputs()) {
    const auto constant = onnx_constant(each);
    parts.push_back(constant ? values_.model().store_integers({replaced(constant->toInt())}) : values_.tensor(each));
  }
  return values_.model().add("Concat", parts, {{"axis", std::int64_t{0}}}).front();
}

// Results -------------------------------------------------------------------------------------------------------------

at::ScalarType OnnxCall::result_type(std::size_t i) const { return type_of(node_.output(i)); }
at::Tensor OnnxCall::empty_like(std::size_t i) const {
  if (const auto constant = onnx_constant(node_.input(i)); constant && constant->isTensor())
    return at::empty_strided(sizes(i), constant->toTensor().strides(), at::kFloat);
  const auto strides = tensor_type(node_.input(i))->strides().concrete_sizes();
  return strides ? at::empty_strided(sizes(i), *strides, at::kFloat) : at::empty(sizes(i), at::kFloat);
}

std::vector<std::int64_t> OnnxCall::result_sizes(std::size_t i) const { return sizes_of(node_.output(i)); }

std::vector<std::int64_t> OnnxCall::unpacked_sizes(std::int64_t dim) const {
  const auto& uses = node_.output()->uses();
  if (uses.size() != 1 || uses.front().user->kind() != prim::ListUnpack) refuse("its list is used as a whole");
  std::vector<std::int64_t> all;
  for (const Value* each : uses.front().user->outputs()) {
    const std::vector<std::int64_t> sizes = sizes_of(each);
    all.push_back(dim < static_cast<std::int64_t>(sizes.size()) ? sizes[static_cast<std::size_t>(dim)] : 1);
  }
  return all;
}

std::string OnnxTensors::constant(double value, at::ScalarType type) const {
  return values_.model().store(at::full({}, value, type));
}

std::string OnnxCall::filled(std::int64_t count, double value) const {
  return values_.model().store(at::full({count}, value, result_type()));
}

std::string OnnxTensors::cast(const std::string& name, at::ScalarType type) const {
  return values_.model().add("Cast", {name}, {{"to", std::int64_t{onnx_type(type)}}}).front();
}

void OnnxTensors::refuse(const std::string& why) const {
  const std::string place = values_.last_name().empty() ? "" : fmt::format(", after {}", values_.last_name());
  throw UsageError(fmt::format("the operator {}{} cannot be written as ONNX: {}", name(), place, why),
                   "rewrite it with other operators, or export TorchScript: --to model.pt");
}

}  // namespace lockstep::nn
