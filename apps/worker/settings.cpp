// SPDX-License-Identifier: Apache-2.0
#include "worker/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

// The settings without those of --set, and their recipe.
struct Source {
  const Recipe* recipe = nullptr;
  ConfigTree tree;
};

Source open_preset(const std::string& what) {
  const std::size_t colon = what.find(':');
  Source source{&find_recipe(what.substr(0, colon)), {}};
  if (colon == std::string::npos) return source;
  const std::string preset = what.substr(colon + 1);
  const auto presets = source.recipe->presets();
  const auto found = presets.find(preset);
  if (found == presets.end()) {
    std::vector<std::string> names;
    for (const auto& [name, yaml] : presets) names.push_back(name);
    throw UsageError(fmt::format("{} has no preset '{}'{}; its presets are {}", source.recipe->name(), preset,
                                 text::did_you_mean(preset, names), text::join(names)));
  }
  source.tree = ConfigTree::from_text(found->second, what);
  return source;
}

Source open_source(const std::string& what) {
  const bool is_file = what.ends_with(".yml") || what.ends_with(".yaml");
  if (!is_file) return open_preset(what);
  Source source{nullptr, ConfigTree::from_file(what)};
  const auto recipe = source.tree.values().find("recipe");
  if (recipe == source.tree.values().end()) {
    throw UsageError(fmt::format("{} does not name a recipe", what),
                     fmt::format("pass one: lockstep train RECIPE -c {}, or add a line such as recipe: captcha", what));
  }
  source.recipe = &find_recipe(recipe->second.yaml);
  return source;
}

/// The file of -c, which may name its recipe. Throws: UsageError if that is a different recipe.
ConfigTree open_file(const std::string& file, const Recipe& recipe) {
  ConfigTree tree = ConfigTree::from_file(file);
  const auto named = tree.values().find("recipe");
  if (named == tree.values().end() || named->second.yaml == recipe.name()) return tree;
  throw UsageError(fmt::format("{}: the file is for the recipe {}, but the command names {}", named->second.origin,
                               named->second.yaml, recipe.name()),
                   "remove one of the two");
}

bool is_map_part(const ConfigFields& fields, const std::string& key) {
  return std::any_of(fields.fields().begin(), fields.fields().end(), [&](const ConfigFields::Field& field) {
    return std::holds_alternative<std::vector<ConfigMap>*>(field.target) && key.starts_with(field.key + ".");
  });
}

}  // namespace

ConfigTree in_own_words(const Recipe& recipe, const ConfigTree& tree, std::vector<std::string>& notes,
                        std::map<std::string, std::string>* options) {
  const ConfigTree renamed = with_aliases(recipe.translate(tree), aliases_of(recipe), notes);
  const auto is_option = [](const std::string& key) { return key.starts_with("--"); };
  const auto config = recipe.make_config();
  ConfigFields fields = config->rows();
  for (const auto& [key, value] : renamed.values()) {
    if (is_option(key)) {
      if (options != nullptr) (*options)[key] = value.yaml;
      continue;
    }
    const bool known = key == "recipe" || is_map_part(fields, key) ||
                       std::any_of(fields.fields().begin(), fields.fields().end(),
                                   [&wanted = key](const auto& field) { return field.key == wanted; });
    if (known) continue;
    throw UsageError(
        fmt::format("{}: unknown key '{}'{}", value.origin, key, text::did_you_mean(key, setting_names(recipe))),
        fmt::format("lockstep inspect config {} lists the settings", recipe.name()));
  }
  return renamed.filtered([&](const std::string& key) { return !is_option(key); });
}

void Settings::bind(const ConfigTree& tree) {
  std::vector<std::string> notes;
  fields_.bind(in_own_words(*recipe_, tree, notes, &options_));
  for (const std::string& note : notes) log::note("{}", note);
}

std::string Settings::option(const std::string& name) const {
  const auto found = options_.find(name);
  return found == options_.end() ? "" : found->second;
}

Settings::Settings(const std::string& what, const std::vector<std::string>& sets, const std::string& file) {
  Source source = open_source(what);
  recipe_ = source.recipe;
  recipe_name_ = recipe_->name();
  config_ = recipe_->make_config();
  fields_.add("recipe", &recipe_name_, "what is trained");
  config_->describe(fields_);
  if (!file.empty()) {
    bind(source.tree);  // first, so that the file wins over the preset, even with another program's keys
    source.tree = open_file(file, *recipe_);
  }
  ConfigTree typed;
  for (const std::string& assignment : sets) typed.set(assignment, "--set");
  ConfigTree known = source.tree;
  known.merge(typed);
  source.tree.merge(recipe_->base_settings(known));
  source.tree.merge(typed);
  bind(source.tree);
  const auto untouched = recipe_->make_config();
  ConfigFields defaults = untouched->rows();
  for (const auto& field : fields_.fields()) {
    if (field.unused.empty()) continue;
    if (ConfigFields::value_text(field.target) == ConfigFields::value_text(defaults.at(field.key).target)) continue;
    log::note("{}: {} has no effect on {}: {}", field.origin, field.key, recipe_name_, field.unused);
  }
  set_max_pixels(config_->data.max_pixels);  // set here, because a recipe may read its data before the Trainer exists
}

std::vector<ConfigAlias> aliases_of(const Recipe& recipe) {
  std::vector<ConfigAlias> aliases = recipe.aliases();
  const auto add = [&](const ConfigAlias& alias) {
    const auto has = [&](const ConfigAlias& each) { return each.from == alias.from; };
    if (std::none_of(aliases.begin(), aliases.end(), has)) aliases.push_back(alias);
  };
  add({.from = "distributed", .is_switch = true});
  add({.from = "use_env", .is_switch = true});
  for (const char* name : {"local_rank", "world_size", "dist_url"}) add({name});
  return aliases;
}

const Recipe& recipe_of(const std::string& what) { return *open_source(what).recipe; }

bool is_switch(const Recipe& recipe, const std::string& name) {
  const auto aliases = aliases_of(recipe);
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const ConfigAlias& alias) { return alias.from == name && alias.is_switch; });
}

std::vector<std::string> setting_names(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const ConfigAlias& alias : aliases_of(recipe)) names.push_back(alias.from);
  const auto config = recipe.make_config();
  ConfigFields fields;
  config->describe(fields);
  for (const auto& field : fields.fields()) names.push_back(field.key);
  return names;
}

bool is_setting(const Recipe& recipe, const std::string& name) {
  for (const std::string& known : setting_names(recipe)) {
    if (known == name) return true;
    if (known.ends_with(".*") && name.starts_with(known.substr(0, known.size() - 1))) return true;
  }
  return false;
}

}  // namespace lockstep::worker
