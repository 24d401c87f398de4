// SPDX-License-Identifier: Apache-2.0
// The only function that parses YAML into a tree. YAML may come from an untrusted checkpoint, and yaml-cpp limits
// neither alias expansion nor nesting depth.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::base {

inline constexpr std::size_t kYamlMostBytes = 4U << 20U;
inline constexpr int kYamlMostDepth = 64;
inline constexpr std::uint64_t kYamlMostValues = 100'000;            ///< with every alias expanded
inline constexpr std::uint64_t kYamlMostExpandedBytes = 64U << 20U;  ///< including all parent keys of each value

/// Returns the text's only document; null if it has none. Before building a tree, checks that the limits hold, no value
/// contains itself, no key occurs twice in a map, and every key is a string. Throws: YAML::Exception with position and
/// reason.
[[nodiscard]] YAML::Node load_yaml(std::string_view text);

/// Returns a node's value as std::int64_t or double, as yaml-cpp does, but in the classic locale: in a locale with a
/// decimal comma "0.001" would become 1. Throws: YAML::Exception if it is not a number.
template <class T>
[[nodiscard]] T yaml_number(const YAML::Node& node);

}  // namespace lockstep::base
