// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/config_alias.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

bool fits(const ConfigAlias& alias, std::string_view key) {
  if (!alias.from.ends_with(".*")) return alias.from == key;
  return key.starts_with(std::string_view(alias.from).substr(0, alias.from.size() - 1));
}

const ConfigAlias* alias_of(const std::vector<ConfigAlias>& aliases, std::string_view key) {
  for (const ConfigAlias& alias : aliases) {
    if (fits(alias, key)) return &alias;
  }
  return nullptr;
}

/// A value on its way to its key, and how strongly it is meant.
struct Claim {
  ConfigValue value;
  int rank = 0;
};

class Renaming {
 public:
  explicit Renaming(const std::vector<ConfigAlias>& aliases) : aliases_(aliases) {}

  void take(const std::string& key, ConfigValue value) {
    const int place = value.origin == "--set" ? 2 : 0;
    const ConfigAlias* alias = alias_of(aliases_, key);
    if (alias == nullptr) return claim(key, {std::move(value), place + 1});
    if (alias->to.empty()) return ignored_.push_back(key);
    if (alias->value) value.yaml = alias->value(value.yaml);
    if (alias->to != key) renamed_.push_back(fmt::format("{} is {} here", key, alias->to));
    if (value.yaml.empty()) return;
    claim(alias->to, {std::move(value), place + (alias->to == key || alias->wins ? 1 : 0)});
  }

  [[nodiscard]] ConfigTree tree() const {
    ConfigTree tree;
    for (const auto& [key, claim] : claims_) {
      tree.set(fmt::format("{}={}", key, claim.value.yaml), claim.value.origin);
    }
    return tree;
  }

  void add_notes(std::vector<std::string>& notes) const {
    if (!renamed_.empty()) notes.push_back("settings under other names: " + text::join(renamed_));
    if (!ignored_.empty()) notes.push_back("settings without a meaning here: " + text::join(ignored_));
  }

 private:
  void claim(const std::string& key, Claim claim) {
    const auto found = claims_.find(key);
    if (found == claims_.end() || found->second.rank <= claim.rank) claims_[key] = std::move(claim);
  }

  const std::vector<ConfigAlias>& aliases_;
  std::map<std::string, Claim> claims_;
  std::vector<std::string> renamed_;
  std::vector<std::string> ignored_;
};

}  // namespace

ConfigTree with_aliases(const ConfigTree& tree, const std::vector<ConfigAlias>& aliases,
                        std::vector<std::string>& notes) {
  Renaming renaming(aliases);
  for (const auto& [key, value] : tree.values()) renaming.take(key, value);
  renaming.add_notes(notes);
  return renaming.tree();
}

}  // namespace lockstep
