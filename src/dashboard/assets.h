// SPDX-License-Identifier: Apache-2.0
// The page's files, built from web/ and compiled in.
#pragma once

#include <map>
#include <string>

namespace lockstep::dashboard {

/// Returns the files by path: "index.html", "assets/app.js". It is empty if the program was built without npm.
[[nodiscard]] const std::map<std::string, std::string>& assets();

}  // namespace lockstep::dashboard
