// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "checkpoint/formats/little_endian.h"
#include "checkpoint/formats/scalar_json.h"
#include "lockstep/base/json.h"
#include "lockstep/base/result.h"

namespace lockstep::checkpoint {
namespace {

// Reads the JSON of a safetensors header event by event. The grammar bounds the nesting, and repeated keys, which a
// document tree would hide, are detected. parse_safetensors_header() checks that the numbers are plausible.

/// A tensor's entry, as written in the JSON.
struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::array<std::uint64_t, 2> offsets{};
};

struct RawHeader {
  std::vector<RawTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The reader's state in the grammar. Each state accepts a few kinds of events and rejects all others.
enum class Place { kStart, kTop, kEntry, kTensor, kDType, kShape, kOffsets, kMetadata, kMetadataValue, kArray, kDone };

/// Reads a header through nlohmann's SAX interface. Every event returns false to stop; error() then has the reason.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return refuse("null"); }
  bool boolean(bool /*value*/) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { return refuse(fmt::format("the number {}", value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return refuse("the number " + text); }
  bool binary(binary_t& /*value*/) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return refuse(fmt::format("the number {}", value));
    if (numbers_.size() >= kMaxDimensions) return stop(fmt::format("'{}' lists too many numbers", tensor_.name));
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kDType) {
      tensor_.dtype = value;
      return go(Place::kTensor);
    }
    if (place_ == Place::kMetadataValue) {
      if (!header_.metadata.emplace(key_, value).second) return stop(fmt::format("metadata '{}' occurs twice", key_));
      return go(Place::kMetadata);
    }
    return refuse("a string");
  }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::kStart) return go(Place::kTop);
    if (place_ != Place::kEntry) return refuse("an object");
    if (key_ == "__metadata__") return go(Place::kMetadata);
    tensor_ = RawTensor{key_, {}, {}, {}};
    tensor_keys_.clear();
    return go(Place::kTensor);
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::kTop) {
      if (!names_.insert(value).second) return stop(fmt::format("'{}' occurs twice", value));
      return go(Place::kEntry);
    }
    if (place_ == Place::kMetadata) return go(Place::kMetadataValue);
    if (!tensor_keys_.insert(value).second) return stop(fmt::format("'{}' of '{}' occurs twice", value, tensor_.name));
    if (value == "dtype") return go(Place::kDType);
    if (value == "shape") return go(Place::kShape);
    if (value == "data_offsets") return go(Place::kOffsets);
    return stop(fmt::format("tensor '{}' has the unknown key '{}'", tensor_.name, value));
  }

  bool end_object() override {
    if (place_ == Place::kTop) return go(Place::kDone);
    if (place_ == Place::kTensor) {
      if (tensor_keys_.size() != 3) return stop(fmt::format("tensor '{}' lacks a key", tensor_.name));
      header_.tensors.push_back(tensor_);
    }
    return go(Place::kTop);
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return refuse("a list");
    array_ = place_;
    numbers_.clear();
    return go(Place::kArray);
  }

  bool end_array() override {
    if (array_ == Place::kShape) {
      tensor_.shape = numbers_;
      return go(Place::kTensor);
    }
    if (numbers_.size() != 2) return stop(fmt::format("tensor '{}' has {} offsets", tensor_.name, numbers_.size()));
    tensor_.offsets = {numbers_[0], numbers_[1]};
    return go(Place::kTensor);
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return stop(fmt::format("the header is not valid JSON (error at byte {})", position));
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] RawHeader take() { return std::move(header_); }

 private:
  bool go(Place next) {
    place_ = next;
    return true;
  }
  bool stop(std::string why) {
    error_ = std::move(why);
    return false;
  }
  bool refuse(const std::string& found) {
    if (place_ == Place::kStart) return stop(fmt::format("the header is {}, not an object", found));
    return stop(fmt::format("the header has {} at '{}', which is not allowed there", found, key_));
  }

  Place place_ = Place::kStart;
  Place array_ = Place::kShape;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> tensor_keys_;
  std::vector<std::uint64_t> numbers_;
  RawTensor tensor_;
  RawHeader header_;
  std::string error_;
};

/// Reads the JSON text of a header, and the spaces that may follow it.
Result<RawHeader> read_header_json(std::string_view json) {
  // nlohmann would skip a byte order mark and leading space; the format has neither.
  if (json.empty() || json.front() != '{') return Failure{"the header does not begin with '{'"};
  HeaderReader reader;
  try {
    if (!read_json_events(json, {.bytes = json.size(), .values = json.size()}, reader)) return Failure{reader.error()};
  } catch (const JsonError& error) {
    return Failure{"the header: " + error.message()};
  }
  return reader.take();
}

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kAlignment = 64;  // a cache line, for readers that map the file

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<DTypeRow, 10> kDTypes{{{DType::kF64, "F64", 8},
                                            {DType::kF32, "F32", 4},
                                            {DType::kF16, "F16", 2},
                                            {DType::kBF16, "BF16", 2},
                                            {DType::kI64, "I64", 8},
                                            {DType::kI32, "I32", 4},
                                            {DType::kI16, "I16", 2},
                                            {DType::kI8, "I8", 1},
                                            {DType::kU8, "U8", 1},
                                            {DType::kBool, "BOOL", 1}}};

const DTypeRow& row_of(DType dtype) noexcept { return kDTypes.at(static_cast<std::size_t>(dtype)); }

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

Result<TensorEntry> check_entry(const RawTensor& raw) {
  const auto dtype = find_dtype(raw.dtype);
  if (!dtype) return Failure{fmt::format("tensor '{}' has the unknown dtype '{}'", raw.name, raw.dtype)};
  TensorEntry entry{raw.name, *dtype, {}, raw.offsets.at(0), raw.offsets.at(1)};
  for (const std::uint64_t size : raw.shape) {
    if (size > std::uint64_t{INT64_MAX})
      return Failure{fmt::format("tensor '{}' has a size of {}, which is too large", raw.name, size)};
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  const auto bytes = tensor_bytes(*dtype, entry.shape);
  if (!bytes) return Failure{fmt::format("tensor '{}' {}", raw.name, bytes.error())};
  if (entry.begin > entry.end || entry.end - entry.begin != *bytes) {
    return Failure{fmt::format("tensor '{}' ({} [{}]) takes {} bytes, but its offsets are {} to {}", raw.name,
                               raw.dtype, fmt::join(entry.shape, ", "), *bytes, entry.begin, entry.end)};
  }
  return entry;
}

/// Returns the entries in file order, or what is wrong with their order.
Result<std::vector<TensorEntry>> check_order(std::vector<TensorEntry> tensors, std::uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin != position) {
      return Failure{fmt::format("tensor '{}' begins at byte {}, but the one before it ends at {}: {}", entry.name,
                                 entry.begin, position, entry.begin < position ? "an overlap" : "a hole")};
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    return Failure{fmt::format("the tensors take {} bytes, but the file holds {}: {}", position, data_bytes,
                               position > data_bytes ? "it is cut short" : "bytes are left over")};
  }
  return tensors;
}

Result<SafetensorsHeader> check_header(const RawHeader& raw, std::uint64_t data_start, std::uint64_t data_bytes) {
  SafetensorsHeader header{data_start, {}, raw.metadata};
  for (const RawTensor& tensor : raw.tensors) {
    auto entry = check_entry(tensor);
    if (!entry) return Failure{entry.error()};
    header.tensors.push_back(std::move(*entry));
  }
  auto ordered = check_order(std::move(header.tensors), data_bytes);
  if (!ordered) return Failure{ordered.error()};
  header.tensors = std::move(*ordered);
  return header;
}

/// Returns {"__metadata__":{...},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}.
Result<std::string> header_json(const std::vector<TensorEntry>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  const auto add = [&json](std::string_view name, const std::string& value) -> Result<bool> {
    const auto quoted = quote_json(name);
    if (!quoted) return Failure{fmt::format("the name '{}' is {}", name, quoted.error())};
    if (json.back() != '{') json += ',';
    json += *quoted + ":" + value;
    return true;
  };
  if (!metadata.empty()) {
    json += R"("__metadata__":{)";
    for (const auto& [name, value] : metadata) {
      const auto quoted = quote_json(value);
      if (!quoted) return Failure{fmt::format("'{}' holds {}", name, quoted.error())};
      if (const auto added = add(name, *quoted); !added) return Failure{added.error()};
    }
    json += '}';
  }
  for (const TensorEntry& entry : tensors) {
    const auto added =
        add(entry.name, fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", dtype_name(entry.dtype),
                                    fmt::join(entry.shape, ","), entry.begin, entry.end));
    if (!added) return Failure{added.error()};
  }
  return json + "}";
}

}  // namespace

std::string_view dtype_name(DType dtype) noexcept { return row_of(dtype).name; }

std::uint64_t dtype_bytes(DType dtype) noexcept { return row_of(dtype).bytes; }

Result<std::uint64_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  if (shape.size() > kMaxDimensions) return Failure{fmt::format("has {} dimensions", shape.size())};
  // Strides count a size of 0 as 1, so the strides of an empty tensor can also overflow.
  std::uint64_t span = dtype_bytes(dtype);
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return Failure{fmt::format("has a size of {}", size)};
    empty = empty || size == 0;
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(span, std::max<std::uint64_t>(static_cast<std::uint64_t>(size), 1), &product) ||
        product > std::uint64_t{INT64_MAX}) {
      return Failure{fmt::format("has the shape [{}], too large for any memory", fmt::join(shape, ", "))};
    }
    span = product;
  }
  return empty ? std::uint64_t{0} : span;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view file) {
  return parse_safetensors_header(file, file.size());
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view front, std::uint64_t file_bytes) {
  if (front.size() < kLengthBytes)
    return Failure{fmt::format("{} bytes are too few for a safetensors file", file_bytes)};
  const std::uint64_t header_bytes = from_little_endian(front, kLengthBytes);
  if (header_bytes > kMaxHeaderBytes) {
    return Failure{fmt::format("a header of {} bytes, but the limit is {}: is this a safetensors file?", header_bytes,
                               kMaxHeaderBytes)};
  }
  if (header_bytes > file_bytes - kLengthBytes || header_bytes > front.size() - kLengthBytes) {
    return Failure{fmt::format("a header of {} bytes in a file of {}: it is cut short", header_bytes, file_bytes)};
  }
  const auto raw = read_header_json(front.substr(kLengthBytes, header_bytes));
  if (!raw) return Failure{raw.error()};
  const std::uint64_t data_start = kLengthBytes + header_bytes;
  return check_header(raw.value(), data_start, file_bytes - data_start);
}

Result<std::string> layout_safetensors(std::vector<TensorEntry>& tensors,
                                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    const auto bytes_a = dtype_bytes(a.dtype);
    const auto bytes_b = dtype_bytes(b.dtype);
    return std::tie(bytes_b, a.name) < std::tie(bytes_a, b.name);
  });
  std::uint64_t position = 0;
  std::set<std::string_view> names{"__metadata__"};
  for (TensorEntry& entry : tensors) {
    if (!names.insert(entry.name).second) return Failure{fmt::format("the name '{}' is taken", entry.name)};
    const auto bytes = tensor_bytes(entry.dtype, entry.shape);
    if (!bytes) return Failure{fmt::format("tensor '{}' {}", entry.name, bytes.error())};
    entry.begin = position;
    entry.end = position += *bytes;
  }
  auto json = header_json(tensors, metadata);
  if (!json) return json;
  const std::uint64_t used = kLengthBytes + json->size();
  json->append((kAlignment - used % kAlignment) % kAlignment, ' ');
  if (json->size() > kMaxHeaderBytes)
    return Failure{fmt::format("the header for {} tensors would be too long", tensors.size())};
  std::string header;
  append_little_endian(header, json->size(), kLengthBytes);
  return header + *json;
}

}  // namespace lockstep::checkpoint
