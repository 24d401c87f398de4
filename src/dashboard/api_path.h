// SPDX-License-Identifier: Apache-2.0
// The paths of requests about a run: "/api/run/0/state".
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::dashboard {

struct RunPath {
  int run = 0;
  std::string_view resource;
};

/// Returns the parts of such a path; none for any other path.
[[nodiscard]] std::optional<RunPath> parse_run_path(std::string_view path);

/// Returns true for the path of one of the page's files; the names consist of lower-case letters and dots.
[[nodiscard]] bool is_asset_path(std::string_view path);
/// Returns true for the path of a file that belongs to the page that runs an exported network.
[[nodiscard]] bool is_network_path(std::string_view path);

}  // namespace lockstep::dashboard
