// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/little_endian.h"
#include "checkpoint/formats/safetensors_file.h"
#include "checkpoint/formats/safetensors_header.h"
#include "checkpoint/formats/scalar_json.h"
#include "lockstep/base/error.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian bytes");

namespace checkpoint {
namespace {

constexpr std::size_t kLengthField = 8;
constexpr std::uint64_t kBoolBlock = 1U << 20U;
constexpr const char* kTornHint = "the file is torn or is not a safetensors file";
constexpr std::string_view kScalarPrefix = "scalar.";

struct TypeRow {
  at::ScalarType type;
  DType dtype;
};

constexpr TypeRow kTypes[] = {{at::kDouble, DType::kF64},    {at::kFloat, DType::kF32}, {at::kHalf, DType::kF16},
                              {at::kBFloat16, DType::kBF16}, {at::kLong, DType::kI64},  {at::kInt, DType::kI32},
                              {at::kShort, DType::kI16},     {at::kChar, DType::kI8},   {at::kByte, DType::kU8},
                              {at::kBool, DType::kBool}};

at::ScalarType scalar_type(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.type;
  }
  throw InternalError("a dtype without a libtorch type");
}

DType dtype_of(const std::string& name, const at::Tensor& tensor) {
  const auto refuse = [&name](const std::string& why) {
    return UsageError(fmt::format("cannot save '{}': {}", name, why));
  };
  if (!tensor.defined()) throw refuse("the tensor is undefined");
  if (tensor.layout() != at::kStrided) throw refuse("the tensor is not dense");
  if (tensor.is_meta()) throw refuse("the tensor has no data (device meta)");
  for (const TypeRow& row : kTypes) {
    if (row.type == tensor.scalar_type()) return row.dtype;
  }
  throw refuse(fmt::format("safetensors has no type for {}", c10::toString(tensor.scalar_type())));
}

/// Returns the tensor row-major and on the CPU, without a copy if it already is.
at::Tensor row_major(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
}

std::string scalar_json_or_throw(const std::string& name, const StateValue& value) {
  auto json = scalar_json(value);
  if (!json) throw UsageError(fmt::format("cannot save '{}': it holds {}", name, json.error()));
  return std::move(*json);
}

/// Checks that the bytes of a bool tensor are 0 or 1: libtorch's kernels rely on it.
void check_bools(const TensorEntry& entry, const char* bytes, const std::string& file) {
  for (std::uint64_t i = 0; i < entry.end - entry.begin; ++i) {
    if (static_cast<unsigned char>(bytes[i]) > 1) {
      throw DataError(fmt::format("{}: element {} of '{}' is not a boolean", file, i, entry.name));
    }
  }
}

at::Tensor tensor_from(const TensorEntry& entry, const FileBytes& buffer, std::uint64_t data_start,
                       const std::string& file) {
  const auto options = at::TensorOptions().dtype(scalar_type(entry.dtype));
  if (entry.begin == entry.end) return at::empty(entry.shape, options);
  char* bytes = buffer.data.get() + data_start + entry.begin;
  if (entry.dtype == DType::kBool) check_bools(entry, bytes, file);
  if (reinterpret_cast<std::uintptr_t>(bytes) % dtype_bytes(entry.dtype) != 0) {
    at::Tensor aligned = at::empty(entry.shape, options);
    std::memcpy(aligned.data_ptr(), bytes, entry.end - entry.begin);
    return aligned;
  }
  return at::from_blob(
      bytes, entry.shape, [keep = buffer.data](void*) {}, options);
}

/// Puts scalars into `state` and everything else into `metadata`.
void split_metadata(const SafetensorsMetadata& all, const std::string& file, StateDict& state,
                    SafetensorsMetadata* metadata) {
  for (const auto& [key, text] : all) {
    if (!key.starts_with(kScalarPrefix)) {
      if (metadata != nullptr) metadata->emplace(key, text);
      continue;
    }
    const std::string name = key.substr(kScalarPrefix.size());
    const auto scalar = scalar_from_json(text);
    if (!scalar) throw DataError(fmt::format("{}: the value of '{}' is {}", file, name, scalar.error()));
    const auto convert = [](const auto& value) { return StateValue(value); };
    if (!state.emplace(name, std::visit(convert, scalar.value())).second) {
      throw DataError(fmt::format("{}: '{}' is both a tensor and a plain value", file, name));
    }
  }
}

}  // namespace

Result<std::string> scalar_json(const StateValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return scalar_to_json(*integer);
  if (const auto* real = std::get_if<double>(&value)) return scalar_to_json(*real);
  if (const auto* flag = std::get_if<bool>(&value)) return scalar_to_json(*flag);
  if (const auto* text = std::get_if<std::string>(&value)) return scalar_to_json(*text);
  return Failure{"a tensor"};
}

SafetensorsHeader read_header(ReadableFile& file, const std::string& path) {
  std::string front(std::min<std::uint64_t>(kLengthField, file.size()), '\0');
  file.read(0, front.data(), front.size());
  if (front.size() == kLengthField) {
    const std::uint64_t bytes = from_little_endian(front, kLengthField);
    front.resize(kLengthField + std::min({bytes, kMaxHeaderBytes, file.size() - kLengthField}));
    file.read(0, front.data(), front.size());
  }
  auto header = parse_safetensors_header(front, file.size());
  if (!header) throw DataError(fmt::format("{}: {}", path, header.error()), kTornHint);
  return std::move(*header);
}

StateDict outline_of(ReadableFile& file, const std::string& path, SafetensorsMetadata* metadata) {
  const SafetensorsHeader header = read_header(file, path);
  StateDict state;
  std::string block;
  for (const TensorEntry& entry : header.tensors) {
    state.emplace(entry.name, at::empty(entry.shape, at::TensorOptions(at::kMeta).dtype(scalar_type(entry.dtype))));
    for (std::uint64_t at = entry.begin; entry.dtype == DType::kBool && at < entry.end; at += block.size()) {
      block.resize(std::min(kBoolBlock, entry.end - at));
      file.read(header.data_start + at, block.data(), block.size());
      check_bools({entry.name, entry.dtype, entry.shape, at, at + block.size()}, block.data(), path);
    }
  }
  split_metadata(header.metadata, path, state, metadata);
  return state;
}

StateDict state_from_bytes(const FileBytes& bytes, const std::string& file, SafetensorsMetadata* metadata) {
  const auto header = parse_safetensors_header(bytes.view());
  if (!header) throw DataError(fmt::format("{}: {}", file, header.error()), kTornHint);
  StateDict state;
  for (const TensorEntry& entry : header->tensors) {
    state.emplace(entry.name, tensor_from(entry, bytes, header->data_start, file));
  }
  split_metadata(header->metadata, file, state, metadata);
  return state;
}

}  // namespace checkpoint

FileDigest write_safetensors(FileSystem& files, const std::filesystem::path& path, const StateDict& state,
                             const SafetensorsMetadata& metadata) {
  std::vector<checkpoint::TensorEntry> entries;
  SafetensorsMetadata all = metadata;
  for (const auto& [key, text] : metadata) {
    if (key.starts_with(checkpoint::kScalarPrefix)) {
      throw UsageError(fmt::format("metadata '{}' would read back as a plain value of the state", key));
    }
  }
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      entries.push_back({name, checkpoint::dtype_of(name, *tensor), tensor->sizes().vec(), 0, 0});
    } else {
      all.emplace(std::string(checkpoint::kScalarPrefix) + name, checkpoint::scalar_json_or_throw(name, value));
    }
  }
  const auto header = checkpoint::layout_safetensors(entries, all);
  if (!header) throw UsageError(fmt::format("cannot save {}: {}", path.string(), header.error()));

  checkpoint::HashingFile file(files.create(path));
  file.append(header->data(), header->size());
  for (const checkpoint::TensorEntry& entry : entries) {
    const at::Tensor tensor = checkpoint::row_major(std::get<at::Tensor>(state.at(entry.name)));
    file.append(tensor.data_ptr(), entry.end - entry.begin);
  }
  return file.finish();
}

StateDict read_safetensors(FileSystem& files, const std::filesystem::path& path, SafetensorsMetadata* metadata) {
  (void)checkpoint::read_header(*files.open(path), path.string());
  return checkpoint::state_from_bytes(checkpoint::read_file(files, path), path.string(), metadata);
}

}  // namespace lockstep
