// SPDX-License-Identifier: Apache-2.0
// The files in templates/, compiled in.
#pragma once

#include <map>
#include <string>

namespace lockstep::apps {

/// Texts by path: "trainer/src/main.cpp".
[[nodiscard]] std::map<std::string, std::string> project_templates();

}  // namespace lockstep::apps
