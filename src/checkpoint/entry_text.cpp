// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/entry_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/safetensors_file.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

std::string type_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return "float64";
    case at::kFloat:
      return "float32";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      throw InternalError("a checkpoint holds a type that safetensors lacks");
  }
}

}  // namespace

std::string type_and_shape(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", type_name(tensor), fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

std::string entry_text(const StateValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return type_and_shape(*tensor);
  return scalar_json(value).value();  // it was read from a file, so it can be written
}

}  // namespace lockstep::checkpoint
