// SPDX-License-Identifier: Apache-2.0
// The links that `lockstep doctor --json` has measured between hosts.
#pragma once

#include <string_view>

#include "lockstep/schedule/cluster.h"

namespace lockstep::apps {

/// Returns the slowest rate and the longest way of the objects in `text`, one a line; other lines are left out. Pure.
/// Throws: DataError where no line is a link, or a link has no figures.
[[nodiscard]] schedule::Link link_of_doctor(std::string_view text);

/// `word` is a file of such lines, or what parse_link() takes. Throws: as both.
[[nodiscard]] schedule::Link read_link(const std::string& word);

}  // namespace lockstep::apps
