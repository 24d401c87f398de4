// SPDX-License-Identifier: Apache-2.0
// The only way from a YAML text to a tree: texts come from strangers too, inside checkpoints, and yaml-cpp bounds
// neither what aliases multiply nor how deep a text goes.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::base {

inline constexpr std::size_t kYamlMostBytes = 4U << 20U;
inline constexpr int kYamlMostDepth = 64;
inline constexpr std::uint64_t kYamlMostValues = 100'000;            ///< also with every alias written out
inline constexpr std::uint64_t kYamlMostExpandedBytes = 64U << 20U;  ///< with all keys on the way to each value

/// The text's one document; null where it has none. What it holds was counted before anything was built: no value
/// holds itself, no key stands twice in a map, every key is a text. Throws: YAML::Exception with place and reason.
[[nodiscard]] YAML::Node load_yaml(std::string_view text);

/// The number that a node is, std::int64_t or double, as yaml-cpp reads it but in the classic locale: in one with a
/// decimal comma "0.001" would be 1. Throws: YAML::Exception where it is none.
template <class T>
[[nodiscard]] T yaml_number(const YAML::Node& node);

}  // namespace lockstep::base
