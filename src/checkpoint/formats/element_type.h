// SPDX-License-Identifier: Apache-2.0
// The element types of a torch file: their names and sizes, without libtorch.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::checkpoint {

enum class ElementType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool, kC64, kC128 };

struct ElementTypeRow {
  ElementType type;
  std::string_view storage;  ///< the class of a storage of this type in Python's torch module
  std::string_view dtype;    ///< the type's name in Python's torch module
  std::uint64_t bytes;
};

/// The element types, in the order of ElementType.
inline constexpr std::array<ElementTypeRow, 12> kElementTypes{{
    {ElementType::kF64, "DoubleStorage", "float64", 8},
    {ElementType::kF32, "FloatStorage", "float32", 4},
    {ElementType::kF16, "HalfStorage", "float16", 2},
    {ElementType::kBF16, "BFloat16Storage", "bfloat16", 2},
    {ElementType::kI64, "LongStorage", "int64", 8},
    {ElementType::kI32, "IntStorage", "int32", 4},
    {ElementType::kI16, "ShortStorage", "int16", 2},
    {ElementType::kI8, "CharStorage", "int8", 1},
    {ElementType::kU8, "ByteStorage", "uint8", 1},
    {ElementType::kBool, "BoolStorage", "bool", 1},
    {ElementType::kC64, "ComplexFloatStorage", "complex64", 8},
    {ElementType::kC128, "ComplexDoubleStorage", "complex128", 16},
}};

[[nodiscard]] inline const ElementTypeRow& row_of(ElementType type) {
  return kElementTypes.at(static_cast<std::size_t>(type));
}

}  // namespace lockstep::checkpoint
