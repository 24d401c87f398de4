// SPDX-License-Identifier: Apache-2.0
// ConfigTree: reads YAML text into dotted keys. config_fields.cpp binds them to structs.
#include "lockstep/base/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/yaml_text.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace {

constexpr const char* kInclude = "__include__";
constexpr int kMostFiles = 1000;

std::string flow_text(const YAML::Node& node) {
  YAML::Emitter out;
  out << YAML::Flow << node;
  return out.c_str();
}

ConfigValue value_of(const YAML::Node& node, std::string origin) {
  if (node.IsSequence()) return {flow_text(node), std::move(origin), true};
  return {node.IsNull() ? "" : node.Scalar(), std::move(origin), false};
}

/// Removes the values below `key`: a new value for the key replaces them.
void erase_parts(std::map<std::string, ConfigValue>& values, const std::string& key) {
  const std::string prefix = key + ".";
  auto at = values.lower_bound(prefix);
  while (at != values.end() && at->first.starts_with(prefix)) at = values.erase(at);
}

class Flattener {
 public:
  Flattener(std::string name, std::map<std::string, ConfigValue>& values) : name_(std::move(name)), values_(values) {}

  void add(const YAML::Node& map, const std::string& prefix) {
    for (const auto& entry : map) {
      const auto key = entry.first.as<std::string>();
      if (prefix.empty() && key == kInclude) continue;
      if (entry.second.IsMap()) {
        add(entry.second, prefix + key + ".");
      } else {
        put(prefix + key, value_of(entry.second, fmt::format("{}:{}", name_, entry.first.Mark().line + 1)));
      }
    }
  }

 private:
  /// Adds a key; "a.b" and "a: {b: ...}" are the same key.
  void put(const std::string& key, ConfigValue value) {
    const auto [before, is_new] = values_.emplace(key, value);
    if (is_new) return;
    throw UsageError(
        fmt::format("{}: the key '{}' occurs twice, first at {}", value.origin, key, before->second.origin),
        "remove one of them");
  }

  std::string name_;
  std::map<std::string, ConfigValue>& values_;
};

YAML::Node parse(std::string_view yaml, const std::string& name) {
  try {
    YAML::Node root = base::load_yaml(yaml);
    if (root.IsNull()) root = YAML::Node(YAML::NodeType::Map);
    if (!root.IsMap()) throw UsageError(fmt::format("{} is not a map of settings", name));
    return root;
  } catch (const YAML::Exception& problem) {
    throw UsageError(
        fmt::format("{}:{}:{}: not valid YAML: {}", name, problem.mark.line + 1, problem.mark.column + 1, problem.msg));
  }
}

/// The chain of files that are being read, each included by the one before it, and the total number of files read.
struct Including {
  std::vector<std::filesystem::path> open;
  int files = 0;
};

/// Resolves a path relative to the including file; "~/" is the home folder.
std::filesystem::path included_path(const std::filesystem::path& from, const std::string& name) {
  if (!name.starts_with("~/")) return from.parent_path() / name;
  return std::filesystem::path(env::get("HOME").value_or("/")) / name.substr(2);
}

ConfigTree load(const std::filesystem::path& path, Including& including) {
  std::error_code problem;
  auto canonical = std::filesystem::weakly_canonical(path, problem);
  if (problem) canonical = path;  // for example /dev/fd/63 from <(command), which read() refuses
  if (std::find(including.open.begin(), including.open.end(), canonical) != including.open.end()) {
    throw UsageError(fmt::format("{} includes itself", path.string()));
  }
  if (++including.files > kMostFiles) {
    throw UsageError(fmt::format("{} and its includes add up to more than {} files (a file counts once per include)",
                                 including.open.front().string(), kMostFiles));
  }
  including.open.push_back(canonical);
  const std::string text = FileSystem::system().read(path, base::kYamlMostBytes);
  ConfigTree tree;
  const YAML::Node includes = parse(text, path.string())[kInclude];
  if (includes.IsDefined() && includes.IsScalar()) {
    tree.merge(load(included_path(path, includes.as<std::string>()), including));
  }
  for (const auto& include : includes) tree.merge(load(included_path(path, include.as<std::string>()), including));
  tree.merge(ConfigTree::from_text(text, path.string()));
  including.open.pop_back();
  return tree;
}

}  // namespace

ConfigTree ConfigTree::from_file(const std::filesystem::path& path) {
  Including including;
  return load(path, including);
}

ConfigTree ConfigTree::from_text(std::string_view yaml, const std::string& name) {
  ConfigTree tree;
  try {
    Flattener(name, tree.values_).add(parse(yaml, name), "");
  } catch (const YAML::Exception& problem) {
    throw UsageError(fmt::format("{}:{}: {}", name, problem.mark.line + 1, problem.msg));
  }
  return tree;
}

void ConfigTree::set(std::string_view assignment, const std::string& origin) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw UsageError(fmt::format("{} '{}' is not an assignment", origin, assignment),
                     "write it as key=value, such as epochs=5");
  }
  const std::string key(assignment.substr(0, equals));
  const std::string text(assignment.substr(equals + 1));
  YAML::Node node;
  try {
    node = base::load_yaml(text);
  } catch (const YAML::Exception&) {
    node = YAML::Node(text);  // text that is not YAML is taken as a plain string
  }
  erase_parts(values_, key);
  const bool is_list = node.IsSequence() && text != "-";  // "-" is plain text here, a list in YAML
  values_[key] = is_list ? value_of(node, origin) : ConfigValue{text, origin, false};
}

void ConfigTree::merge(const ConfigTree& other) {
  for (const auto& [key, value] : other.values_) {
    for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      values_.erase(key.substr(0, dot));
    }
    erase_parts(values_, key);
    values_[key] = value;
  }
}

ConfigTree ConfigTree::filtered(const std::function<bool(const std::string& key)>& wanted) const {
  ConfigTree chosen;
  for (const auto& [key, value] : values_) {
    if (wanted(key)) chosen.values_.emplace(key, value);
  }
  return chosen;
}

}  // namespace lockstep
