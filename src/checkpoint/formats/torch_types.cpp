// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/torch_types.h"

namespace lockstep::checkpoint {
namespace {

/// libtorch's types, in the order of ElementType.
constexpr std::array<at::ScalarType, kElementTypes.size()> kScalarTypes{
    at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,         at::kInt,
    at::kShort,  at::kChar,  at::kByte, at::kBool,     at::kComplexFloat, at::kComplexDouble};

}  // namespace

at::ScalarType scalar_type_of(ElementType type) { return kScalarTypes.at(static_cast<std::size_t>(type)); }

std::optional<ElementType> element_type_of(at::ScalarType type) {
  for (const ElementTypeRow& row : kElementTypes) {
    if (scalar_type_of(row.type) == type) return row.type;
  }
  return std::nullopt;
}

}  // namespace lockstep::checkpoint
