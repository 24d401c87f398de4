// SPDX-License-Identifier: Apache-2.0
// Writes a CheckpointDescription for people (tables) and for programs (JSON).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {
namespace {

constexpr std::size_t kShownText = 60;  // characters of a plain value in a table; the JSON has the whole value

std::string cut_text(const std::string& text) {
  return text.size() <= kShownText ? text : text.substr(0, kShownText) + "...";
}

std::string state_table(const std::string& name, const std::vector<EntryDescription>& entries) {
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const EntryDescription& entry : entries) {
    bytes += entry.bytes;
    elements += entry.elements;
    name_width = std::max(name_width, entry.name.size());
    if (entry.norm) value_width = std::max(value_width, entry.value.size());
  }
  std::string text = fmt::format("\n{}: {} entries, {} elements, {}\n", name.empty() ? "(top)" : name, entries.size(),
                                 text::thousands(elements), text::bytes(bytes));
  for (const EntryDescription& entry : entries) {
    text += fmt::format("  {:<{}}  ", entry.name, name_width);
    text += entry.norm ? fmt::format("{:<{}}  {:>9}  norm {:.6g}\n", entry.value, value_width, text::bytes(entry.bytes),
                                     *entry.norm)
                       : cut_text(entry.value) + "\n";
  }
  return text;
}

nlohmann::ordered_json manifest_json(const Manifest& manifest) {
  return {{"step", manifest.meta.step},
          {"replicas", manifest.meta.replicas},
          {"threads", manifest.meta.threads},
          {"configuration", manifest.meta.configuration_hash},
          {"libtorch", manifest.libtorch},
          {"instruction_set", manifest.instruction_set},
          {"blas", manifest.blas},
          {"kernel_variables", manifest.kernel_variables},
          {"format", manifest.format_version}};
}

}  // namespace

std::string to_text(const CheckpointDescription& description) {
  std::string text = fmt::format("{:<15}{}\n", description.manifest ? "checkpoint" : "file", description.path.string());
  if (description.manifest) {
    const Manifest& manifest = *description.manifest;
    const bool has_variables = !manifest.kernel_variables.empty() && manifest.kernel_variables != "none";
    const std::string variables = has_variables ? ", " + manifest.kernel_variables : "";
    text += fmt::format(
        "step           {}\nreplicas       {}\nthreads        {} per replica\nconfiguration  {}\n"
        "libtorch       {}, {}{}{}\nformat         {}\n",
        text::thousands(manifest.meta.step), manifest.meta.replicas, manifest.meta.threads,
        manifest.meta.configuration_hash.empty() ? "-" : manifest.meta.configuration_hash, manifest.libtorch,
        manifest.instruction_set, manifest.blas.empty() ? "" : ", " + manifest.blas, variables,
        manifest.format_version);
  }
  for (const auto& [file, digest] : description.texts) {
    text += fmt::format("text           {} ({})\n", file, text::bytes(digest.bytes));
  }
  for (const auto& [name, entries] : description.states) text += state_table(name, entries);
  return text;
}

std::string to_json(const CheckpointDescription& description) {
  nlohmann::ordered_json json = {{"path", description.path.string()}};
  if (description.manifest) json.update(manifest_json(*description.manifest));
  for (const auto& [file, digest] : description.texts) json["texts"][file] = digest.bytes;
  for (const auto& [name, entries] : description.states) {
    nlohmann::ordered_json& list = json["states"][name] = nlohmann::ordered_json::array();
    for (const EntryDescription& entry : entries) {
      nlohmann::ordered_json row = {{"name", entry.name}, {"value", entry.value}};
      if (entry.norm) {
        row["bytes"] = entry.bytes;
        row["elements"] = entry.elements;
        row["norm"] = *entry.norm;
        if (!std::isfinite(*entry.norm)) row["norm"] = fmt::format("{}", *entry.norm);  // JSON has no infinity
      }
      list.push_back(std::move(row));
    }
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
