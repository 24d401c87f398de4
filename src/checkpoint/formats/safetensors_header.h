// SPDX-License-Identifier: Apache-2.0
// Reads and writes the header of a safetensors file. It checks each number in the untrusted bytes before using it, and
// does not use libtorch. docs/formats/safetensors.md has the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
inline constexpr std::size_t kMaxDimensions = 64;              // more than libtorch's operators accept

/// The element types that both the format and libtorch have.
enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

/// Returns "F32".
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;
/// Returns the size of one element in bytes.
[[nodiscard]] std::uint64_t dtype_bytes(DType dtype) noexcept;

/// Where a tensor lies in the file. Offsets count from the end of the header.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::uint64_t data_start = 0;      ///< offset of the first tensor byte in the file
  std::vector<TensorEntry> tensors;  ///< sorted by offset, without overlaps or holes
  std::map<std::string, std::string> metadata;
};

/// Returns the size of a tensor of this shape in bytes. Fails if the size or a stride does not fit into 63 bits.
[[nodiscard]] Result<std::uint64_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape);

/// Reads the header of a whole file. On success every entry lies inside the file and has the size that its shape
/// implies, and every byte after the header belongs to exactly one tensor. Throws only if memory runs out.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::string_view file);

/// Does the same with `front`, the start of a file of `file_bytes` bytes: at least the first 8 bytes and the header.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::string_view front, std::uint64_t file_bytes);

/// Arranges `tensors` (whose name, dtype and shape are set) without holes, with large element types first so that each
/// tensor is aligned. Sets their offsets and order, and returns the header's bytes, preceded by its length; their count
/// is a multiple of 64. Fails if a name is not UTF-8, repeated or reserved, or a size overflows.
[[nodiscard]] Result<std::string> layout_safetensors(std::vector<TensorEntry>& tensors,
                                                     const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::checkpoint
