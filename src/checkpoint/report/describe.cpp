// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/norm.h>
#include <fmt/format.h>

#include <type_traits>

#include "checkpoint/formats/entry_text.h"
#include "checkpoint/formats/state_hash.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/platform.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep {
namespace {

/// Returns the L2 norm, computed in double precision for every type.
double norm_of(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.is_complex() ? tensor.to(at::kComplexDouble).abs() : tensor.to(at::kDouble);
  return wide.norm().item<double>();
}

EntryDescription describe_entry(const std::string& name, const StateValue& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  if (tensor == nullptr) return {name, checkpoint::entry_text(value), 0, 0, {}};
  const auto bytes = static_cast<std::uint64_t>(tensor->numel()) * tensor->element_size();
  return {name, checkpoint::entry_text(value), bytes, tensor->numel(), norm_of(*tensor)};
}

/// Adds values outside of states, such as plain values and lists, under their keys joined by dots.
void describe_tree(const TorchValue& value, const std::string& name, std::vector<EntryDescription>& entries) {
  const auto below = [&name](const std::string& key) { return name.empty() ? key : name + "." + key; };
  if (const auto* dict = value.dict()) {
    for (const auto& [key, entry] : *dict) {
      const auto* text = std::get_if<std::string>(&key);
      describe_tree(entry, below(text != nullptr ? *text : fmt::format("{}", std::get<std::int64_t>(key))), entries);
    }
  } else if (const auto* list = std::get_if<TorchList>(&value.value)) {
    for (std::size_t i = 0; i < list->size(); ++i) describe_tree((*list)[i], below(fmt::format("{}", i)), entries);
  } else if (std::holds_alternative<std::monostate>(value.value)) {
    entries.push_back({name, "null", 0, 0, {}});
  } else {
    const auto convert = [](const auto& any) -> StateValue {
      if constexpr (std::is_constructible_v<StateValue, decltype(any)>) return any;
      return {};  // the branches above handle lists, dicts and None
    };
    entries.push_back(describe_entry(name, std::visit(convert, value.value)));
  }
}

}  // namespace

CheckpointDescription describe_checkpoint(const Checkpoint& checkpoint) {
  CheckpointDescription description{checkpoint.path(), checkpoint.manifest(), {}, {}};
  for (const std::string& file : checkpoint.text_files()) {
    description.texts[file] = checkpoint.manifest().files.at(file);
  }
  for (const std::string& name : checkpoint.names()) {
    auto& entries = description.states[name];
    for (const auto& [entry, value] : checkpoint.state(name)) entries.push_back(describe_entry(entry, value));
  }
  return description;
}

CheckpointDescription describe_file(FileSystem& files, const std::filesystem::path& path) {
  CheckpointDescription description{path, {}, {}, {}};
  const TorchValue content = read_any_file(files, path);
  const auto* dict = content.dict();
  if (dict == nullptr) {
    describe_tree(content, "", description.states[""]);
    return description;
  }
  for (const auto& [key, value] : *dict) {
    const auto* text = std::get_if<std::string>(&key);
    const std::string word = text != nullptr ? *text : fmt::format("{}", std::get<std::int64_t>(key));
    const bool is_state = value.dict() != nullptr;
    describe_tree(value, is_state ? "" : word, description.states[is_state ? word : ""]);
  }
  return description;
}

std::string platform_difference(const Manifest& manifest) {
  const std::string now = checkpoint::platform();
  const std::string then = checkpoint::platform_of(manifest);
  return now == then ? "" : fmt::format("written with {}, but this is {}", then, now);
}

std::string checkpoint_digest(const Checkpoint& checkpoint) {
  checkpoint::StateHash hash;
  for (const std::string& state : checkpoint.names()) hash.add(state, checkpoint.state(state));
  return hash.hex();
}

}  // namespace lockstep
