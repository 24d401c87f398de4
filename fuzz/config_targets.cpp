// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/json.h"

namespace lockstep::fuzz {
namespace {

constexpr std::size_t kMostBound = 20;  // more would only cost time

/// Settings of every type.
struct FuzzedSettings {
  std::int64_t epochs = 1;
  double lr = 0.1;
  bool shuffle = true;
  std::string amp = "none";
  std::vector<std::string> tags;
  AutoInt batch{8};
  std::vector<std::string> points;
  std::vector<ConfigMap> groups;

  ConfigFields fields() {
    ConfigFields list;
    list.add("epochs", &epochs, "passes").in({1, 1e8}, "epochs");
    list.add("optimizer.lr", &lr, "rate").in({.least = 0, .above = true});
    list.add("data.shuffle", &shuffle, "order");
    list.add("amp", &amp, "precision");
    list.add("tags", &tags, "words");
    list.add("batch", &batch, "samples").in({1, 1e7});
    list.add("points", &points, "of a head").in({0, 64});
    list.add("groups", &groups, "maps");
    return list;
  }
};

void bind_one_by_one(const ConfigTree& tree) {
  if (tree.values().size() > kMostBound) return;
  for (const auto& [key, value] : tree.values()) {
    FuzzedSettings settings;
    ConfigFields fields = settings.fields();
    try {
      fields.bind(tree.filtered([&wanted = key](const std::string& name) { return name == wanted; }));
    } catch (const UsageError&) {  // an unknown key, a value of the wrong type or out of range
      continue;
    }
    fields.check();  // bound values are within range: an error here ends the program
    (void)ConfigTree::from_text(fields.to_yaml(), "written again");
  }
}

}  // namespace

void yaml(std::string_view bytes) {
  const bool is_sound = yaml_problem(bytes).empty();
  try {
    const ConfigTree tree = ConfigTree::from_text(bytes, "fuzz");
    require(is_sound);
    bind_one_by_one(tree);
  } catch (const UsageError&) {  // not settings
  }
  ConfigTree tree;
  tree.set("groups=" + std::string(bytes), "fuzz");
  bind_one_by_one(tree);
}

void json_text(std::string_view bytes) {
  constexpr JsonLimits kLimits{.bytes = 1U << 20U, .values = 1000, .depth = 16};
  const auto depth_of = [](const auto& self, const nlohmann::json& value) -> int {
    int deepest = 0;
    for (const auto& inner : value) deepest = std::max(deepest, value.is_structured() ? self(self, inner) : 0);
    return deepest + (value.is_structured() ? 1 : 0);
  };
  try {
    const nlohmann::json value = parse_json(bytes, kLimits);
    require(depth_of(depth_of, value) <= kLimits.depth);
    require(parse_json(value.dump(), kLimits) == value);  // writing it and reading it again must not change it
    std::string packed;
    nlohmann::json::to_cbor(value, packed);
    require(parse_cbor(packed, {.depth = kLimits.depth}) == value);
    (void)parse_failure(std::string(bytes));
  } catch (const JsonError& refused) {
    require(refused.message().size() <= 1000 && refused.byte() <= bytes.size() + 1);
  }
  try {
    (void)parse_cbor(bytes, kLimits).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } catch (const JsonError&) {  // not CBOR
  }
}

}  // namespace lockstep::fuzz
