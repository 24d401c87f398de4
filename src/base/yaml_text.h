// SPDX-License-Identifier: Apache-2.0
// The only function that makes a tree of a YAML text. Texts may come from strangers, inside checkpoints, and yaml-cpp
// limits neither the growth by aliases nor the depth of a text.
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

/// The text's one document; null if it has none. Its content is counted before anything is built: no value contains
/// itself, no key occurs twice in a map, every key is a text. Throws: YAML::Exception with place and reason.
[[nodiscard]] YAML::Node load_yaml(std::string_view text);

/// A node's value as a number, std::int64_t or double, as in yaml-cpp but in the classic locale: in one with a decimal
/// comma "0.001" would be 1. Throws: YAML::Exception if it is no number.
template <class T>
[[nodiscard]] T yaml_number(const YAML::Node& node);

}  // namespace lockstep::base
