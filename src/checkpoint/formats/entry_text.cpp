// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/entry_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/formats/safetensors_file.h"
#include "checkpoint/formats/torch_types.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

std::string type_name(const at::Tensor& tensor) {
  const auto type = element_type_of(tensor.scalar_type());
  if (!type) throw InternalError("a tensor of a checkpoint has a dtype that checkpoint files cannot hold");
  return std::string(row_of(*type).dtype);
}

}  // namespace

std::string type_and_shape(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", type_name(tensor), fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

std::string entry_text(const StateValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return type_and_shape(*tensor);
  const auto json = scalar_json(value);
  return json ? *json : text::json_quote(std::get<std::string>(value));  // another program's text may not be UTF-8
}

}  // namespace lockstep::checkpoint
