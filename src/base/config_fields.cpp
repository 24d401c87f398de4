// SPDX-License-Identifier: Apache-2.0
// ConfigFields: writes the values of dotted keys into the fields of a struct, and the fields to YAML.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/yaml_text.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

template <class... Ts>
struct Overload : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overload(Ts...) -> Overload<Ts...>;  // Clang 14 does not deduce this for an aggregate

constexpr const char* kAuto = "auto";

const char* type_name(const ConfigFields::Target& target) {
  constexpr std::array<const char*, std::variant_size_v<ConfigFields::Target>> kNames = {
      "true or false",          "an integer",    "a number", "a string", "a list of strings",
      "a whole number or auto", "a list of maps"};
  return kNames[target.index()];
}

void assign_number_or_auto(AutoInt& field, const std::string& yaml) {
  if (yaml == kAuto) {
    field = AutoInt::automatic();
  } else {
    field = base::yaml_number<std::int64_t>(base::load_yaml(yaml));
  }
}

/// Throws: YAML::Exception unless it is a list of maps whose values are scalars or lists of scalars.
void assign_maps(std::vector<ConfigMap>& field, const std::string& yaml) {
  std::vector<ConfigMap> maps;
  YAML::Node list = base::load_yaml(yaml);
  if (list.IsMap()) list = base::load_yaml("[" + yaml + "]");
  for (const YAML::Node& node : list) {
    ConfigMap map;
    if (!node.IsMap()) throw YAML::RepresentationException(node.Mark(), "not a map");
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (entry.second.IsSequence()) {
        map[key] = entry.second.as<std::vector<std::string>>();
      } else {
        map[key] = entry.second.as<std::string>();
      }
    }
    maps.push_back(std::move(map));
  }
  field = std::move(maps);
}

YAML::Node node_of_maps(const std::vector<ConfigMap>& maps) {
  YAML::Node list(YAML::NodeType::Sequence);
  for (const ConfigMap& map : maps) {
    YAML::Node node(YAML::NodeType::Map);
    for (const auto& [key, value] : map) {
      std::visit([&node, &name = key](const auto& held) { node[name] = held; }, value);
    }
    list.push_back(node);
  }
  return list;
}

// Returns false if the text does not have the target's type.
bool assign(const ConfigFields::Target& target, const ConfigValue& value) {
  try {
    const bool takes_maps = std::holds_alternative<std::vector<ConfigMap>*>(target);
    const bool is_list = takes_maps || std::holds_alternative<std::vector<std::string>*>(target);
    if (value.is_sequence != is_list && !(takes_maps && base::load_yaml(value.yaml).IsMap())) return false;
    std::visit(Overload{[&](std::string* field) { *field = value.yaml; },
                        [&](AutoInt* field) { assign_number_or_auto(*field, value.yaml); },
                        [&](std::vector<ConfigMap>* field) { assign_maps(*field, value.yaml); },
                        [&](bool* field) { *field = base::load_yaml(value.yaml).as<bool>(); },
                        [&](std::vector<std::string>* field) {
                          *field = base::load_yaml(value.yaml).as<std::vector<std::string>>();
                        },
                        [&](auto* field) {
                          *field =
                              base::yaml_number<std::remove_pointer_t<decltype(field)>>(base::load_yaml(value.yaml));
                        }},
               target);
    return true;
  } catch (const YAML::Exception&) {
    return false;
  }
}

/// Returns the numbers in a field, each with its text.
std::vector<std::pair<double, std::string>> numbers_of(const ConfigFields::Field& field) {
  using Numbers = std::vector<std::pair<double, std::string>>;
  return std::visit(Overload{[](const std::int64_t* number) -> Numbers {
                               return {{static_cast<double>(*number), fmt::format("{}", *number)}};
                             },
                             [](const double* number) -> Numbers {
                               return {{*number, fmt::format("{}", *number)}};
                             },
                             [](const AutoInt* number) -> Numbers {
                               if (number->is_auto()) return {};
                               return {{static_cast<double>(number->value()), fmt::format("{}", number->value())}};
                             },
                             [](const std::vector<std::string>* list) -> Numbers {
                               Numbers numbers;
                               for (const std::string& text : *list) {
                                 const double none = std::numeric_limits<double>::quiet_NaN();
                                 numbers.emplace_back(text::parse_number(text).value_or(none), text);
                               }
                               return numbers;
                             },
                             [](const auto*) -> Numbers { return {}; }},
                    field.target);
}

UsageError out_of_range(const ConfigFields::Field& field, const std::string& value, const std::string& origin) {
  const bool is_in_list = std::holds_alternative<std::vector<std::string>*>(field.target);
  return UsageError(fmt::format("{}{} {} {}; it must be {}", origin.empty() ? "" : origin + ": ", field.key,
                                is_in_list ? "has" : "is", value, field.allowed()));
}

void check_range(const ConfigFields::Field& field, const std::string& origin) {
  if (!field.range) return;
  for (const auto& [number, text] : numbers_of(field)) {
    if (!field.range->contains(number)) throw out_of_range(field, text, origin);
  }
}

bool is_whole_number(const std::string& text) {
  const std::size_t digits = text.find_first_not_of("+-");
  return digits <= 1 && text.find_first_not_of("0123456789", digits) == std::string::npos;
}

/// Creates the error for a value that its field does not accept.
UsageError no_value(const ConfigFields::Field& field, const ConfigValue& value) {
  const bool may_be_auto = std::holds_alternative<AutoInt*>(field.target);
  const bool is_integer = may_be_auto || std::holds_alternative<std::int64_t*>(field.target);
  // An integer that does not fit into 64 bits.
  if (is_integer && is_whole_number(value.yaml)) {
    if (field.range) return out_of_range(field, value.yaml, value.origin);
    return UsageError(
        fmt::format("{}: {} is {}, which does not fit into 64 bits", value.origin, field.key, value.yaml));
  }
  return UsageError(fmt::format("{}: {} is '{}', not {}{}{}", value.origin, field.key, value.yaml,
                                type_name(field.target), may_be_auto ? text::did_you_mean(value.yaml, {kAuto}) : "",
                                field.range ? "; it must be " + field.allowed() : ""));
}

void check_choice(const ConfigFields::Field& field, const ConfigValue& value) {
  if (field.choices.empty()) return;
  if (std::find(field.choices.begin(), field.choices.end(), value.yaml) != field.choices.end()) return;
  throw UsageError(fmt::format("{}: {} is '{}'; valid values are {}{}", value.origin, field.key, value.yaml,
                               text::join(field.choices), text::did_you_mean(value.yaml, field.choices)));
}

/// Joins the dotted keys of a map in a list of maps back into one value.
std::map<std::string, ConfigValue> with_whole_maps(const ConfigTree& tree,
                                                   const std::vector<ConfigFields::Field>& fields) {
  std::map<std::string, ConfigValue> values = tree.values();
  for (const ConfigFields::Field& field : fields) {
    if (!std::holds_alternative<std::vector<ConfigMap>*>(field.target)) continue;
    const std::string prefix = field.key + ".";
    YAML::Node map(YAML::NodeType::Map);
    std::string origin;
    for (auto at = values.lower_bound(prefix); at != values.end() && at->first.starts_with(prefix);) {
      const auto& [key, value] = *at;
      map[key.substr(prefix.size())] = value.is_sequence ? base::load_yaml(value.yaml) : YAML::Node(value.yaml);
      origin = value.origin;
      at = values.erase(at);
    }
    if (map.size() == 0 || values.contains(field.key)) continue;
    YAML::Emitter out;
    out << YAML::Flow << map;
    values[field.key] = {out.c_str(), origin, false};
  }
  return values;
}

YAML::Node node_of(const ConfigFields::Target& target) {
  return std::visit(Overload{[](const std::string* field) {
                               YAML::Node node(*field);
                               return node;
                             },
                             [](const double* field) { return YAML::Node(fmt::format("{}", *field)); },
                             [](const std::int64_t* field) { return YAML::Node(fmt::format("{}", *field)); },
                             [](const AutoInt* field) {
                               return YAML::Node(field->is_auto() ? kAuto : fmt::format("{}", field->value()));
                             },
                             [](const std::vector<ConfigMap>* field) { return node_of_maps(*field); },
                             [](const auto* field) { return YAML::Node(*field); }},
                    target);
}

}  // namespace

std::int64_t AutoInt::value() const {
  if (number_) return *number_;
  throw UsageError("a setting is auto, and its value is not known yet",
                   "the Trainer determines the value; without a Trainer, set a number");
}

ConfigFields::Field& ConfigFields::add(std::string key, Target target, std::string help,
                                       std::vector<std::string> choices) {
  fields_.push_back({std::move(key), target, std::move(help), "default", std::move(choices)});
  return fields_.back();
}

ConfigFields::Field& ConfigFields::at(const std::string& key) {
  const auto field = std::find_if(fields_.begin(), fields_.end(), [&](const Field& each) { return each.key == key; });
  if (field == fields_.end()) throw InternalError(fmt::format("there is no setting {}", key));
  return *field;
}

void ConfigFields::bind(const ConfigTree& tree) {
  for (const auto& [key, value] : with_whole_maps(tree, fields_)) {
    const auto field =
        std::find_if(fields_.begin(), fields_.end(), [&wanted = key](const Field& f) { return f.key == wanted; });
    if (field == fields_.end()) {
      std::vector<std::string> keys;
      for (const Field& f : fields_) keys.push_back(f.key);
      throw UsageError(fmt::format("{}: unknown key '{}'{}", value.origin, key, text::did_you_mean(key, keys)));
    }
    check_choice(*field, value);
    if (!assign(field->target, value)) throw no_value(*field, value);
    check_range(*field, value.origin);
    field->origin = value.origin;
  }
}

void ConfigFields::check() const {
  for (const Field& field : fields_) check_range(field, "");
}

std::string ConfigFields::value_text(const Target& target) {
  YAML::Emitter out;
  out << YAML::Flow << node_of(target);
  return out.c_str();
}

std::string ConfigFields::to_yaml() const {
  YAML::Node root(YAML::NodeType::Map);
  for (const Field& field : fields_) {
    YAML::Node at = root;
    std::string rest = field.key;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      at.reset(at[rest.substr(0, dot)]);
      rest.erase(0, dot + 1);
    }
    at[rest] = node_of(field.target);
    if (at[rest].IsSequence()) at[rest].SetStyle(YAML::EmitterStyle::Flow);
  }
  YAML::Emitter out;
  out << root;
  return std::string(out.c_str()) + "\n";
}

}  // namespace lockstep
