// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/weights/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/formats/folder_names.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModuleName = "module.";
constexpr std::size_t kMostIndexBytes = 256U << 20U;

using WeightMap = std::map<std::string, std::string>;

/// Reads {"metadata": {...}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}.
WeightMap read_index(FileSystem& files, const fs::path& path) {
  const auto refuse = [&path](const std::string& why) {
    return DataError(fmt::format("{}: {}", path.string(), why), "pass the index of a sharded safetensors model");
  };
  const auto json = read_json_file(files, path, {.bytes = kMostIndexBytes, .values = kMostIndexBytes / 16});
  if (!json.is_object()) throw refuse("not a JSON object");
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) throw refuse("it has no weight_map");
  WeightMap parts;
  for (const auto& [name, part] : map->items()) {
    const bool plain = part.is_string() && is_plain_file_name(part.get<std::string>());
    if (!plain)
      throw refuse(
          fmt::format("'{}' should be in {}, which is not the name of a file beside the index", name, part.dump()));
    parts[name] = part.get<std::string>();
  }
  return parts;
}

StateDict read_sharded(FileSystem& files, const fs::path& path) {
  const WeightMap parts = read_index(files, path);
  std::set<std::string> names;
  for (const auto& [name, part] : parts) names.insert(part);
  StateDict all;
  for (const std::string& part : names) {
    for (auto& [name, value] : read_safetensors(files, path.parent_path() / part)) {
      const auto known = parts.find(name);
      if (known != parts.end() && known->second == part) all.insert_or_assign(name, value);
    }
  }
  for (const auto& [name, part] : parts) {
    if (all.count(name) == 0) {
      throw DataError(fmt::format("{}: '{}' should be in {}, but is not there", path.string(), name, part),
                      "the parts are from another model, or one is missing");
    }
  }
  return all;
}

/// Returns true if "module." is in front of every name. An AveragedModel's count may be among them.
bool is_wrapped(const StateDict& state) {
  const auto wrapped =
      std::count_if(state.begin(), state.end(), [](const auto& entry) { return entry.first.starts_with(kModuleName); });
  return wrapped > 0 && static_cast<std::size_t>(wrapped) + state.count(kAveragedCount) == state.size();
}

}  // namespace

bool is_weight_file(FileSystem& files, const fs::path& path) { return files.exists(path) && !files.exists(path / "."); }

TorchValue read_weight_file(FileSystem& files, const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".safetensors.index.json")) return to_torch_value(read_sharded(files, path));
  if (name.ends_with(".safetensors")) return to_torch_value(read_safetensors(files, path));
  return read_torch_file(files, path);
}

StateDict tensors_of(const TorchDict& dict) {
  StateDict state;
  for (const auto& [key, value] : dict) {
    const auto* name = std::get_if<std::string>(&key);
    const auto* tensor = std::get_if<at::Tensor>(&value.value);
    if (name != nullptr && tensor != nullptr) state.emplace(*name, *tensor);
  }
  if (!is_wrapped(state)) return state;
  StateDict inner;
  for (auto& [name, value] : state) {
    if (name != kAveragedCount) inner.emplace(name.substr(kModuleName.size()), std::move(value));
  }
  return inner;
}

}  // namespace lockstep::checkpoint
