// SPDX-License-Identifier: Apache-2.0
#include "train/settings/configuration.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <map>

#include "train/settings/schedule_choice.h"

namespace lockstep::train {
namespace {

using Values = std::map<std::string, ConfigValue>;

std::string schedule_type(const Values& values) {
  const auto type = values.find("schedule.type");
  return type == values.end() ? TrainConfig().schedule.type : type->second.yaml;
}

bool has_stages(const Values& values) {
  const auto stop = values.find("stop_epoch");
  return stop != values.end() && stop->second.yaml != "0";
}

/// The kinds of settings that may change, because the run's result does not depend on them.
struct Freedom {
  bool length = false;
  bool evaluations = true;
};

Freedom freedom_of(const Values& values) {
  const std::string type = schedule_type(values);
  return {.length = !depends_on_length(type), .evaluations = type != "plateau" && !has_stages(values)};
}

/// The rows of the settings, by key.
class Rules {
 public:
  explicit Rules(const ConfigFields& rows) {
    for (const auto& field : rows.fields()) rows_[field.key] = &field;
  }

  [[nodiscard]] OnResume at_resume(const std::string& key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? OnResume::kError : found->second->resume;
  }

  [[nodiscard]] bool is_free(const std::string& key, const Freedom& freedom) const {
    switch (at_resume(key)) {
      case OnResume::kFree:
      case OnResume::kCheckpoint:
        return true;
      case OnResume::kFreeLength:
        return freedom.length;
      case OnResume::kFreeEvaluations:
        return freedom.evaluations;
      case OnResume::kFreeToBegin:
      case OnResume::kError:
        return false;
    }
    return false;
  }

  [[nodiscard]] bool is_per_host(const std::string& key) const {
    const auto found = rows_.find(key);
    return found != rows_.end() && found->second->host;
  }

 private:
  std::map<std::string, const ConfigFields::Field*> rows_;
};

}  // namespace

std::string settings_text(const std::string& recipe, const TrainConfig& config) {
  std::string name = recipe;
  ConfigFields head;
  head.add("recipe", &name, "what is trained");
  return head.to_yaml() + config.rows().to_yaml();
}

std::vector<Difference> differences(const std::string& before, const std::string& now, const ConfigFields& rows) {
  const ConfigTree old_tree = ConfigTree::from_text(before, "the checkpoint's config.yml");
  const ConfigTree new_tree = ConfigTree::from_text(now, "the settings");
  const Rules rules(rows);
  Freedom freedom = freedom_of(new_tree.values());
  freedom.length = freedom.length && freedom_of(old_tree.values()).length;
  std::vector<Difference> found;
  for (const auto& [key, value] : new_tree.values()) {
    const auto old = old_tree.values().find(key);
    if (rules.is_free(key, freedom) || old == old_tree.values().end() || old->second.yaml == value.yaml) continue;
    // Versions that did not save class names wrote an empty list here.
    if (key == "class_names" && old->second.yaml == "[]") continue;
    found.push_back({key, old->second.yaml, value.yaml, rules.at_resume(key)});
  }
  return found;
}

std::map<std::string, std::string> common_settings(const std::string& settings, const ConfigFields& rows) {
  const ConfigTree tree = ConfigTree::from_text(settings, "the settings");
  const Rules rules(rows);
  std::map<std::string, std::string> common;
  for (const auto& [key, value] : tree.values()) {
    if (!rules.is_per_host(key)) common[key] = value.yaml;
  }
  return common;
}

std::string configuration_hash(const std::string& settings, const ConfigFields& rows) {
  const ConfigTree tree = ConfigTree::from_text(settings, "the settings");
  const Rules rules(rows);
  const Freedom freedom = freedom_of(tree.values());
  std::string text;
  for (const auto& [key, value] : tree.values()) {
    if (!rules.is_free(key, freedom)) text += fmt::format("{}={}\n", key, value.yaml);
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace lockstep::train
