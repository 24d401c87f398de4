// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "checkpoint/entry_text.h"
#include "checkpoint/platform.h"
#include "checkpoint/state_hash.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep {
namespace {

EntryDescription describe_entry(const std::string& name, const StateValue& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  if (tensor == nullptr) return {name, checkpoint::entry_text(value), 0, 0};
  return {name, checkpoint::entry_text(value), static_cast<std::uint64_t>(tensor->nbytes()), tensor->numel()};
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

std::string to_text(const CheckpointDescription& description) {
  const Manifest& manifest = description.manifest;
  std::string text = fmt::format(
      "checkpoint     {}\nstep           {}\nreplicas       {}\nthreads        {} per replica\nconfiguration  {}\n"
      "libtorch       {}, {}\nformat         {}\n",
      description.path.string(), text::thousands(manifest.meta.step), manifest.meta.replicas, manifest.meta.threads,
      manifest.meta.configuration_hash.empty() ? "-" : manifest.meta.configuration_hash, manifest.libtorch,
      manifest.instruction_set, manifest.format_version);
  for (const auto& [file, digest] : description.texts) {
    text += fmt::format("text           {} ({})\n", file, text::bytes(digest.bytes));
  }
  for (const auto& [name, entries] : description.states) text += state_text(name, entries);
  return text;
}

std::string platform_difference(const Manifest& manifest) {
  const std::string now = fmt::format("{}, {}", tensor::libtorch_version(), checkpoint::instruction_set());
  const std::string then = fmt::format("{}, {}", manifest.libtorch, manifest.instruction_set);
  return now == then ? "" : fmt::format("written with libtorch {}, and this is {}", then, now);
}

std::string checkpoint_digest(const Checkpoint& checkpoint) {
  checkpoint::StateHash hash;
  for (const std::string& state : checkpoint.names()) hash.add(state, checkpoint.state(state));
  return hash.hex();
}

}  // namespace lockstep
