// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/sha256.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {
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

std::string type_and_shape(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", type_name(tensor), fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

/// Read from a file, so it can be written.
std::string scalar_text(const StateValue& value) { return checkpoint::scalar_json(value).value(); }

EntryDescription describe_entry(const std::string& name, const StateValue& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  if (tensor == nullptr) return {name, scalar_text(value), 0, 0};
  return {name, type_and_shape(*tensor), static_cast<std::uint64_t>(tensor->nbytes()), tensor->numel()};
}

std::string state_text(const std::string& name, const std::vector<EntryDescription>& entries) {
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  std::size_t width = 0;
  for (const EntryDescription& entry : entries) {
    bytes += entry.bytes;
    elements += entry.elements;
    width = std::max(width, entry.name.size());
  }
  std::string text = fmt::format("\n{}: {} entries, {} elements, {}\n", name, entries.size(), text::thousands(elements),
                                 text::bytes(bytes));
  for (const EntryDescription& entry : entries) text += fmt::format("  {:<{}}  {}\n", entry.name, width, entry.value);
  return text;
}

}  // namespace

CheckpointDescription describe_checkpoint(const Checkpoint& checkpoint) {
  CheckpointDescription description{checkpoint.path(), checkpoint.manifest(), {}};
  for (const std::string& name : checkpoint.names()) {
    auto& entries = description.states[name];
    for (const auto& [entry, value] : checkpoint.state(name)) entries.push_back(describe_entry(entry, value));
  }
  return description;
}

std::string to_text(const CheckpointDescription& description) {
  const Manifest& manifest = description.manifest;
  std::string text = fmt::format(
      "checkpoint     {}\nstep           {}\nreplicas       {}\nthreads        {} per replica\nconfiguration  {}\n"
      "libtorch       {}, {}\nformat         {}\n",
      description.path.string(), text::thousands(manifest.meta.step), manifest.meta.replicas, manifest.meta.threads,
      manifest.meta.configuration_hash.empty() ? "-" : manifest.meta.configuration_hash, manifest.libtorch,
      manifest.instruction_set, manifest.format_version);
  for (const auto& [name, entries] : description.states) text += state_text(name, entries);
  return text;
}

std::string checkpoint_digest(const Checkpoint& checkpoint) {
  checkpoint::Sha256 hash;
  for (const std::string& state : checkpoint.names()) {
    for (const auto& [entry, value] : checkpoint.state(state)) {
      const std::string name = text::json_quote(state + "/" + entry);
      const auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor == nullptr) {
        hash.update(fmt::format("{} json {}\n", name, scalar_text(value)));
        continue;
      }
      hash.update(fmt::format("{} {}\n", name, type_and_shape(*tensor)));
      if (tensor->numel() > 0) hash.update({static_cast<const char*>(tensor->data_ptr()), tensor->nbytes()});
    }
  }
  return hash.hex();
}

}  // namespace lockstep
