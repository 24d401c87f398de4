// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/part_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kSlicePrefix = "slice.";

/// Throws if `json` is not an integer; get<>() would convert any number.
std::int64_t slice_integer(const nlohmann::json& json) {
  return json.get_ref<const nlohmann::json::number_integer_t&>();
}

std::vector<std::int64_t> integers_of(const nlohmann::json& json) {
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& number : json) numbers.push_back(slice_integer(number));
  return numbers;
}

}  // namespace

std::string slice_to_json(const TensorSlice& slice) {
  nlohmann::json json = {{"begin", slice.begin}, {"shape", slice.shape}};
  if (!slice.strides.empty()) json["strides"] = slice.strides;
  return json.dump();
}

Result<TensorSlice> slice_from_json(const std::string& text) {
  try {
    const auto json = parse_json(text);
    return TensorSlice{.begin = slice_integer(json.at("begin")),
                       .shape = integers_of(json.at("shape")),
                       .strides = integers_of(json.value("strides", nlohmann::json::array()))};
  } catch (const JsonError& error) {
    return Failure{error.message()};
  } catch (const nlohmann::json::exception& error) {
    return Failure{error.what()};
  }
}

FileDigest write_part(FileSystem& files, const std::filesystem::path& path, const StatePart& part) {
  SafetensorsMetadata metadata;
  for (const auto& [name, slice] : part.slices) metadata[std::string(kSlicePrefix) + name] = slice_to_json(slice);
  return write_safetensors(files, path, part.entries, metadata);
}

StatePart part_from(StateDict state, const SafetensorsMetadata& metadata, const std::string& file) {
  StatePart part{.entries = std::move(state), .slices = {}};
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kSlicePrefix)) continue;
    const std::string name = key.substr(kSlicePrefix.size());
    const auto slice = slice_from_json(text);
    if (!slice) throw DataError(fmt::format("{}: the place of '{}' is {}", file, name, slice.error()));
    const auto entry = part.entries.find(name);
    if (entry == part.entries.end() || !std::holds_alternative<at::Tensor>(entry->second)) {
      throw DataError(fmt::format("{}: it has a place for the tensor '{}' but no such tensor", file, name));
    }
    part.slices[name] = slice.value();
  }
  return part;
}

}  // namespace lockstep::checkpoint
