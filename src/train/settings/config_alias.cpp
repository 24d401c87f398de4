// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/config_alias.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostRenamed = 12;

/// Returns `value` in lower case, without quotes and spaces.
std::string plain(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c != ' ' && c != '\'' && c != '"') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

/// Compares strings as text and numbers by value: "0." equals 0.
bool is_same(const std::string& a, const std::string& b) {
  if (plain(a) == plain(b)) return true;
  const auto number = text::parse_number(a);
  return number && number == text::parse_number(b);
}

bool is_one_of(const std::string& value, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return is_same(value, word); });
}

bool fits(const ConfigAlias& alias, std::string_view key) {
  if (!alias.from.ends_with(".*")) return alias.from == key;
  return key.starts_with(std::string_view(alias.from).substr(0, alias.from.size() - 1));
}

/// Returns the aliases of the first matching key.
std::vector<const ConfigAlias*> aliases_of(const std::vector<ConfigAlias>& aliases, std::string_view key) {
  std::vector<const ConfigAlias*> found;
  for (const ConfigAlias& alias : aliases) {
    if (fits(alias, key) && (found.empty() || found.front()->from == alias.from)) found.push_back(&alias);
  }
  return found;
}

/// A value for a key, with its precedence.
struct Claim {
  ConfigValue value;
  int rank = 0;
};

class Renaming {
 public:
  explicit Renaming(const std::vector<ConfigAlias>& aliases) : aliases_(aliases) {}

  void take(const std::string& key, const ConfigValue& value) {
    const std::vector<const ConfigAlias*> aliases = aliases_of(aliases_, key);
    for (const ConfigAlias* alias : aliases) take_as(key, *alias, value);
    if (aliases.empty()) claim(key, {value, place_of(value) + 1});
  }

  [[nodiscard]] ConfigTree tree() const {
    ConfigTree tree;
    for (const auto& [key, claim] : claims_) {
      tree.set(fmt::format("{}={}", key, claim.value.yaml), claim.value.origin);
    }
    return tree;
  }

  void add_notes(std::vector<std::string>& notes) const {
    notes.insert(notes.end(), without_effect_.begin(), without_effect_.end());
    if (!ignored_.empty()) notes.push_back("settings without an effect here: " + text::join(ignored_));
    std::vector<std::string> renamed(
        renamed_.begin(), renamed_.begin() + static_cast<std::ptrdiff_t>(std::min(kMostRenamed, renamed_.size())));
    if (renamed.size() < renamed_.size()) {
      renamed.push_back(
          fmt::format("and {} more; the run's config.yml lists all of them", renamed_.size() - renamed.size()));
    }
    if (!renamed.empty()) notes.push_back("settings under other names: " + text::join(renamed));
  }

 private:
  /// The command line takes precedence over files.
  static int place_of(const ConfigValue& value) { return value.origin.starts_with("--") ? 2 : 0; }

  void take_as(const std::string& key, const ConfigAlias& alias, ConfigValue value) {
    const int place = place_of(value);
    if (alias.to.empty()) return take_without_meaning(key, alias, value);
    if (alias.value) value.yaml = alias.value(value.yaml);
    if (alias.to != key && alias.to != "--" + key) renamed_.push_back(fmt::format("{} is {} here", key, alias.to));
    if (value.yaml.empty()) return;
    claim(alias.to, {std::move(value), place + (alias.to == key || alias.wins ? 1 : 0)});
  }

  void take_without_meaning(const std::string& key, const ConfigAlias& alias, const ConfigValue& value) {
    const bool has_value = !alias.always.empty();
    if (has_value && (value.yaml.empty() || is_one_of(value.yaml, alias.always))) return;
    if (has_value && alias.must_be) {
      throw UsageError(fmt::format("{}: {} is {}, which has no equivalent here", value.origin, key, value.yaml),
                       fmt::format("here it is {}", text::join(alias.always, " or ")));
    }
    if (alias.instead.empty() && !has_value) {
      ignored_.push_back(key);
    } else {
      without_effect_.push_back(
          fmt::format("{} is {}, which has no effect here: {}", key, value.yaml,
                      alias.instead.empty() ? "it is always " + alias.always.front() : "use " + alias.instead));
    }
  }

  void claim(const std::string& key, Claim claim) {
    const auto found = claims_.find(key);
    if (found == claims_.end() || found->second.rank <= claim.rank) claims_[key] = std::move(claim);
  }

  const std::vector<ConfigAlias>& aliases_;
  std::map<std::string, Claim> claims_;
  std::vector<std::string> renamed_;
  std::vector<std::string> without_effect_;
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
