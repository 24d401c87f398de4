// SPDX-License-Identifier: Apache-2.0
// The paths of a run's answers: "/api/run/0/state".
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::dashboard {

struct RunPath {
  int run = 0;
  std::string_view resource;
};

/// Returns the parts of a path; none if it is another.
[[nodiscard]] std::optional<RunPath> parse_run_path(std::string_view path);

/// Returns true for the path of one of the page's files, which have small letters in their names, and dots.
[[nodiscard]] bool is_asset_path(std::string_view path);
/// Returns true for the path of a file of the page on which a network answers.
[[nodiscard]] bool is_network_path(std::string_view path);

}  // namespace lockstep::dashboard
