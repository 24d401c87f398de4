// SPDX-License-Identifier: Apache-2.0
// The live page of a run: --dashboard of `lockstep train` and `lockstep run`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::apps {

/// Returns true if a page can be served at the address `word`: "8080", "127.0.0.1:8080", "[::1]:0"; not
/// "captcha:digits".
[[nodiscard]] bool is_page_address(const std::string& word);

/// Takes --dashboard, --dashboard=ADDRESS or --dashboard ADDRESS out of `words`, up to "--". Returns the address to
/// listen on; "0" if the option has no address; nothing without the option. Throws: UsageError for an invalid address.
[[nodiscard]] std::optional<std::string> take_dashboard(std::vector<std::string>& words);

/// Starts lockstep-dashboard for `folder`, which may still be missing. The dashboard prints its address, runs at the
/// lowest priority, and ends with this process, even if this process executes another program or is killed.
/// Throws: ResourceError if the program is missing or no process can start.
void show_page_of_run(const std::string& address, const std::filesystem::path& folder);

}  // namespace lockstep::apps
