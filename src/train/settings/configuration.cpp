// SPDX-License-Identifier: Apache-2.0
#include "train/settings/configuration.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "train/settings/schedule_choice.h"

namespace lockstep::train {
namespace {

using Values = std::map<std::string, ConfigValue>;

constexpr std::array<std::string_view, 16> kFreeKeys = {
    "workers",          "prefetch_factor", "pin_memory",         "cuda_graph",
    "log_every_steps",  "data.train",      "data.test",          "replicas",
    "threads",          "optimizer.zero",  "bucket_cap_mb",      "persistent_workers",
    "loader_timeout_s", "folder",          "data.allow_outside", "data.max_pixels"};

std::string schedule_type(const Values& values) {
  const auto type = values.find("schedule.type");
  return type == values.end() ? TrainConfig().schedule.type : type->second.yaml;
}

bool has_stages(const Values& values) {
  const auto stop = values.find("stop_epoch");
  return stop != values.end() && stop->second.yaml != "0";
}

/// What may change because nothing of the run's course looks at it.
struct Freedom {
  bool length = false;      ///< epochs, max_steps
  bool evaluations = true;  ///< eval_every_epochs, and by what they are compared
};

Freedom freedom_of(const Values& values) {
  const std::string type = schedule_type(values);
  return {.length = !depends_on_length(type), .evaluations = type != "plateau" && !has_stages(values)};
}

bool is_free(const std::string& key, const Freedom& freedom) {
  if (key == "stop_at.metric") return freedom.evaluations;
  if (key.starts_with("checkpoint.") || key.starts_with("stop_at.")) return true;
  if (key == "epochs" || key == "max_steps") return freedom.length;
  if (key == "eval_every_epochs") return freedom.evaluations;
  return std::find(kFreeKeys.begin(), kFreeKeys.end(), key) != kFreeKeys.end();
}

}  // namespace

std::string settings_text(const std::string& recipe, TrainConfig& config) {
  std::string name = recipe;
  ConfigFields fields;
  fields.add("recipe", &name, "what is trained");
  config.describe(fields);
  return fields.to_yaml();
}

std::vector<Difference> differences(const std::string& before, const std::string& now) {
  const ConfigTree old_tree = ConfigTree::from_text(before, "the checkpoint's config.yml");
  const ConfigTree new_tree = ConfigTree::from_text(now, "the settings");
  Freedom freedom = freedom_of(new_tree.values());
  freedom.length = freedom.length && freedom_of(old_tree.values()).length;
  std::vector<Difference> found;
  for (const auto& [key, value] : new_tree.values()) {
    const auto old = old_tree.values().find(key);
    if (is_free(key, freedom) || old == old_tree.values().end() || old->second.yaml == value.yaml) continue;
    if (key == "class_names" && old->second.yaml == "[]") continue;  // of a version that did not keep the data's names
    found.push_back({key, old->second.yaml, value.yaml});
  }
  return found;
}

std::map<std::string, std::string> common_settings(const std::string& settings) {
  static constexpr std::array<std::string_view, 8> kOfAHost = {
      "workers",    "prefetch_factor", "pin_memory",         "cuda_graph",
      "data.train", "data.test",       "persistent_workers", "loader_timeout_s"};
  const ConfigTree tree = ConfigTree::from_text(settings, "the settings");
  std::map<std::string, std::string> common;
  for (const auto& [key, value] : tree.values()) {
    if (std::find(kOfAHost.begin(), kOfAHost.end(), key) == kOfAHost.end()) common[key] = value.yaml;
  }
  return common;
}

std::string configuration_hash(const std::string& settings) {
  const ConfigTree tree = ConfigTree::from_text(settings, "the settings");
  const Freedom freedom = freedom_of(tree.values());
  std::string text;
  for (const auto& [key, value] : tree.values()) {
    if (!is_free(key, freedom)) text += fmt::format("{}={}\n", key, value.yaml);
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace lockstep::train
